"""Promise 9: nothing about one job, its output or its row stops the worker or hides the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing

import pytest
from support import alive, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

GO = "until [ -e go ]; do sleep 0.02; done"


def rows(spool, sql):
    with closing(sqlite3.connect(spool.db, timeout=20)) as db:
        return db.execute(sql).fetchall()


def last(spool, job_id):
    return spool.show(job_id)["attempts"][-1]


def told(spool, job_id):
    return [event["event"] for event in spool.show(job_id)["events"]]


def started(spool, job_id):
    spool.wait_for(job_id, "running")
    return wait_until(lambda: last(spool, job_id)["pid"], 20)


def goes_on(spool, worker, note="goes on"):
    """The worker takes a new job, and its output is kept."""
    job = spool.add("--", "echo", note)
    spool.wait_for(job, "done")
    assert (spool.output / str(job) / "1" / "stdout").read_text() == f"{note}\n"
    assert worker.poll() is None


# --- the output directory ---------------------------------------------------------------------------------


def a_link_to_nothing(spool, output):
    output.symlink_to(spool.path / "nowhere")


def a_link_to_itself(spool, output):
    output.symlink_to(output)


def a_link_to_a_file(spool, output):
    (spool.path / "a file").touch()
    output.symlink_to(spool.path / "a file")


def a_pipe(spool, output):
    os.mkfifo(output)


@pytest.mark.parametrize("make", [a_link_to_nothing, a_link_to_itself, a_link_to_a_file, a_pipe])
def test_what_is_no_directory_fails_the_attempts_until_it_is_one(spool, make):
    job = spool.add("--max-retries", "0", "-c", "echo must not run >ran")
    make(spool, spool.output)
    worker = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(job, "dead")
    attempt = last(spool, job)
    assert (attempt["failure_reason"], attempt["pid"]) == ("spawn_failed", None)
    assert str(spool.output) in attempt["error"]
    assert not (spool.path / "ran").exists()
    spool.output.unlink()
    goes_on(spool, worker)


def the_jobs_directory_is_a_file(folder):
    folder.parent.touch()


def the_attempts_directory_is_a_file(folder):
    folder.parent.mkdir()
    folder.touch()


def a_stream_is_a_directory(folder):
    (folder / "stderr").mkdir(parents=True)


def a_stream_is_a_pipe(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "stdout")


def a_stream_is_a_link_to_a_pipe(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    (folder / "stdout").symlink_to("pipe")


@pytest.mark.parametrize(
    "make",
    [
        the_jobs_directory_is_a_file,
        the_attempts_directory_is_a_file,
        a_stream_is_a_directory,
        a_stream_is_a_pipe,
        a_stream_is_a_link_to_a_pipe,
    ],
)
def test_what_stands_in_the_way_of_one_job_fails_that_one_only(spool, make):
    first = spool.add("--", "true")
    blocked = spool.add("--max-retries", "0", "-c", "echo must not run >ran")
    spool.output.mkdir(mode=0o700)
    make(spool.output / str(blocked) / "1")
    worker = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(first, "done")
    spool.wait_for(blocked, "dead")
    assert last(spool, blocked)["failure_reason"] == "spawn_failed"
    assert f"{spool.output}/{blocked}" in last(spool, blocked)["error"]
    assert not (spool.path / "ran").exists()
    goes_on(spool, worker)


def test_output_on_another_device_is_kept_there(spool, in_memory):
    elsewhere = in_memory / "output"
    elsewhere.mkdir()
    jobs = [
        spool.add("-c", f"echo {n}; [ $SPOOLCTL_ATTEMPT -gt 1 ] || exit 1", "--backoff-base", "0")
        for n in (1, 2, 3)
    ]
    spool.output.symlink_to(elsewhere)
    assert spool.work(check=0).data["succeeded"] == 3
    for n, job in enumerate(jobs, 1):
        assert (elsewhere / str(job) / "2" / "stdout").read_text() == f"{n}\n"
        assert spool.json("output", str(job))["streams"]["stdout"]["preview"] == f"{n}\n"


def test_what_is_removed_beside_a_running_worker_is_made_again(spool):
    """output/, workers/, the gate, and the directory the worker was started in."""
    here = spool.path / "started here"
    here.mkdir()
    job = spool.add("-c", f"echo lost; {GO}; echo over")
    spool.add("--", "true")  # a spare pair is made while the first one runs
    worker = spool.start("work", "--db", str(spool.db), "--poll-interval", "0.1", cwd=here)
    started(spool, job)
    for folder in (spool.output, spool.db.parent / "workers", here):
        shutil.rmtree(folder)
    (spool.db.parent / "gate").unlink()
    (spool.path / "go").touch()
    spool.wait_for(job, "done")
    goes_on(spool, worker)
    shown = spool.json("feedback", str(job))
    assert (shown["succeeded"], shown["streams"]["stdout"]["missing"]) == (True, True)
    assert spool.work("--once", check=0).data == {"claimed": False}
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert rows(spool, "SELECT * FROM workers") == []


def test_a_reaper_does_not_wait_on_a_pipe_that_the_job_put_in_the_place_of_its_output(spool):
    script = "cd .spoolctl/output/$SPOOLCTL_JOB_ID/1; rm stdout; mkfifo stdout; echo $$ >up; exec sleep 300"
    job = spool.add("--max-crashes", "0", "-c", script)
    first = spool.start("work", "--grace", "0.5")
    pid = started(spool, job)
    wait_until(lambda: (spool.output / str(job) / "1" / "up").exists())
    first.kill()
    first.wait()
    second = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(job, "dead")
    assert not alive(pid)
    goes_on(spool, second)


# --- the row ----------------------------------------------------------------------------------------------


def damaged(path, *marks):
    """Overwrite each mark, wherever the file holds it, with bytes that are no UTF-8 and no JSON."""
    content = path.read_bytes()
    for mark in marks:
        assert mark in content, mark
        content = content.replace(mark, (b"\xff\x00\xc3(" * len(mark))[: len(mark)])
    path.write_bytes(content)


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


def test_an_environment_that_the_system_refuses_is_spawn_failed(spool):
    big = {f"V{n}": "x" * 131_000 for n in range(20)}
    line = json.dumps({"argv": ["true"], "env": big, "max_retries": 0})
    spool.json("add", "--from", "-", stdin=line.encode())
    after = spool.add("--", "true")
    assert spool.work(check=0).data["succeeded"] == 1
    attempt = last(spool, 1)
    assert attempt["failure_reason"] == "spawn_failed"
    assert "[Errno 7] Argument list too long" in attempt["error"]
    assert (spool.state(1), spool.state(after)) == ("dead", "done")
    assert len(spool.show(1)["job"]["env"]) == 20
