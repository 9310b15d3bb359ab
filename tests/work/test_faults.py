"""Promise 9: nothing that a job's row holds stops the worker or hides the others."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from looking import damage, failures, last, rows
from support import wait_until
from workers import goes_on

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_an_argument_list_that_the_system_refuses_is_spawn_failed(spool):
    lines = [{"argv": ["true", "x" * 200_000]}, {"argv": ["true", *["y" * 100_000] * 40]}, {"argv": ["true"]}]
    feed = "\n".join(json.dumps(line | {"max_retries": 0}) for line in lines).encode()
    jobs = spool.json("add", "--from", "-", stdin=feed)["job_ids"]
    spool.work(check=0)
    assert (
        failures(spool, *jobs[:2])
        == [f"spawn failed: [Errno 7] Argument list too long: '{shutil.which('true')}'"] * 2
    )
    assert spool.state(jobs[2]) == "done"
    assert len(spool.show(jobs[0])["job"]["argv"][1]) == 200_000


def test_a_damaged_row_stops_neither_the_worker_nor_the_others(spool):
    columns = ("argv", "env", "captured_env", "cwd", "timeout", "backoff_base", "max_output")
    jobs = [spool.add("--max-retries", "1", "-c", "echo ran; exit 1") for _ in columns]
    after = spool.add("--", "true")
    for job, column in zip(jobs, columns, strict=True):
        damage(spool, f"UPDATE jobs SET {column} = :damage WHERE id = {job}", {"damage": "[1, {\x00"})
    for job in jobs:
        damage(spool, f"UPDATE jobs SET max_retries = 0 WHERE id = {job}")
    spool.work(check=0)
    assert spool.state(after) == "done"
    assert rows(spool, f"SELECT DISTINCT state FROM jobs WHERE id < {after}") == [("dead",)]
    assert rows(spool, "SELECT count(*) FROM attempts WHERE state = 'running'") == [(0,)]


def test_a_row_of_which_no_command_can_be_made_stops_neither_the_worker_nor_the_others(spool):
    half = r'"\ud800"'  # of a character: there are no bytes for it
    stored = {
        "argv": f'["true", {half}]', "env": f'{{"A": {half}}}', "captured_env": f'{{{half}: "a"}}',
    }  # fmt: skip
    jobs = [spool.add("--max-retries", "0", "--", "true") for _ in (*stored, "name")]
    after = spool.add("--", "true")
    for job, (column, value) in zip(jobs, stored.items(), strict=False):
        damage(spool, f"UPDATE jobs SET {column} = :value WHERE id = {job}", {"value": value})
    damage(spool, f"UPDATE jobs SET env = :value WHERE id = {jobs[-1]}", {"value": '{"A=B": "c"}'})
    spool.work(check=0)
    assert spool.state(after) == "done"
    said = failures(spool, *jobs)
    assert all("surrogates not allowed" in one for one in said[:-1])
    assert said[-1] == "spawn failed: illegal environment variable name"
    assert {spool.show(job)["job"]["last_failure_reason"] for job in jobs} == {"spawn_failed"}


def test_a_row_that_cannot_be_claimed_is_set_aside(spool):
    taken, full, after = spool.add(), spool.add(), spool.add()
    damage(spool, f"UPDATE jobs SET attempt_no = 9223372036854775807 WHERE id = {full}")
    damage(
        spool,
        "INSERT INTO attempts (job_id, attempt_no, state, worker, worker_label, token, started_at,"
        f" finished_at) VALUES ({taken}, 1, 'failed', 1, 'w', 't', 1, 1)",
    )
    assert spool.work(check=0).data["drained"] is True
    assert spool.state(after) == "done"
    for job in (taken, full):
        shown = spool.show(job)
        assert (shown["job"]["state"], shown["job"]["last_failure_reason"]) == ("dead", "unknown")
        assert shown["job"]["last_error"].startswith("the stored row cannot be run: ")
        assert [one["event"] for one in shown["events"]] == ["added", "failed", "dead"]


def damaged(path, *marks):
    """Overwrite each mark, wherever the file holds it, with bytes that are no UTF-8 and no JSON."""
    content = path.read_bytes()
    for mark in marks:
        assert mark in content, mark
        content = content.replace(mark, (b"\xff\x00\xc3(" * len(mark))[: len(mark)])
    path.write_bytes(content)


@linux
def test_bytes_that_are_damaged_on_disk_hurt_no_job_but_theirs(spool):
    """Real bytes in the file: of the words, the environment, the directory, the note, a tag, a key, the
    lane and an error text; every verb and the worker go on."""
    once = ("--max-retries", "0")
    before = spool.add("--", "echo", "before")
    hurt = {
        "argv": spool.add(*once, "--", "echo", "MARKARGV"),
        "env": spool.add(*once, "--env", "A=MARKENVI", "-c", "echo ran"),
        "captured": spool.add(*once, "-c", "echo ran", env={"VIRTUAL_ENV": "MARKCAPT"}),
        "cwd": spool.add(*once, "--cwd", "/tmp", "-c", "echo ran"),
        "note": spool.add(*once, "--note", "MARKNOTE", "-c", "echo ran"),
        "tag": spool.add(*once, "--tag", "t=MARKTAGS", "-c", "echo ran"),
        "key": spool.add(*once, "--key", "zMARKKEYS", "-c", "echo ran"),
        "lane": spool.add(*once, "--queue", "zMARKLANE", "-c", "echo ran"),
    }
    folder = spool.path / "MARKFOLD"
    folder.mkdir()
    hurt["folder"] = spool.add(*once, "--cwd", "MARKFOLD", "-c", "echo ran")
    after = spool.add("--", "echo", "after")
    assert not (spool.db.parent / "queue.db-wal").exists()  # all of it is in the file
    damaged(
        spool.db, b"MARKARGV", b"MARKENVI", b"MARKCAPT", b"MARKNOTE", b"MARKTAGS", b"MARKKEYS", b"MARKLANE",
        b"MARKFOLD",
    )  # fmt: skip

    def read_everything():
        ids = [str(job) for job in (before, *hurt.values(), after)]
        assert set(ids) <= {str(job["id"]) for job in spool.json("list")["jobs"]}
        for verb in ("list", "status", "events"):
            spool.run(verb, "--json", check=0)
            spool.run(verb, check=0)
        for one in ids:
            for verb in ("show", "feedback", "output"):
                assert spool.run(verb, one, "--json").exit == 0
                assert spool.run(verb, one).exit == 0

    read_everything()
    worker = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(before, "done")
    spool.wait_for(after, "done")
    wait_until(
        lambda: (
            rows(spool, "SELECT count(*) FROM jobs WHERE queue = 'default' AND finished_at IS NULL") == [(0,)]
        )
    )
    goes_on(spool, worker)
    for name in ("argv", "env", "captured"):
        assert spool.state(hurt[name]) == "dead", name
        assert last(spool, hurt[name])["failure_reason"] == "spawn_failed"
    assert spool.state(hurt["folder"]) == "dead"  # there is no such directory
    for name in ("cwd", "note", "tag", "key"):
        assert spool.state(hurt[name]) == "done", name
    assert spool.state(hurt["lane"]) == "queued"  # of a lane that nobody can name
    read_everything()
    spool.json("cancel", str(hurt["lane"]))
    spool.json("retry", str(hurt["argv"]))
    spool.json("prune", "--older-than", "0", "--state", "done,canceled", "--yes")
    assert spool.json("list", "--state", "done,canceled")["jobs"] == []


@linux
def test_an_environment_that_the_system_refuses_is_spawn_failed(spool):
    big = {f"V{n}": "x" * 131_000 for n in range(20)}
    line = json.dumps({"argv": ["true"], "env": big, "max_retries": 0})
    spool.json("add", "--from", "-", stdin=line.encode())
    after = spool.add("--", "true")
    assert spool.work(check=0).data["succeeded"] == 1
    assert "[Errno 7] Argument list too long" in failures(spool, 1)[0]
    assert (spool.state(1), spool.state(after)) == ("dead", "done")
    assert len(spool.show(1)["job"]["env"]) == 20
