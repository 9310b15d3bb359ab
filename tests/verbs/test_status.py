"""status: numbers of jobs, workers and their liveness, what runs and what died last."""

from __future__ import annotations

import os
import signal
import sqlite3

import pytest
from support import wait_until

from spoolctl import paths
from spoolctl.contract import limits
from spoolctl.store import counts as store
from spoolctl.store import jobs
from spoolctl.store import open as opening

ZEROS = {"canceled": 0, "dead": 0, "done": 0, "failed": 0, "queued": 0, "running": 0}


def status(spool, *flags):
    return spool.json("status", *flags)


def running(spool, *flags, script="while [ ! -e go ]; do sleep 0.02; done"):
    """(job, its worker), when the command has started."""
    job = spool.add("-c", script)
    worker = spool.start("work", "--once", *flags)
    spool.wait_for(job, "running")
    wait_until(lambda: spool.show(job)["attempts"][0]["pid"])
    return job, worker


def test_counts_and_scheduled_are_of_the_lanes_that_hold_jobs(spool):
    spool.json("add", "--from", "-", stdin=b"true\n" * 5)
    spool.json("add", "--from", "-", "--queue", "b", "--after", "1h", "--priority", "2", stdin=b"true\n" * 3)
    spool.add("--queue", "b", "--priority", "2", "--", "true")
    spool.add("--queue", "b", "--priority", "-1", "--after", "1h", "--", "true")
    spool.json("cancel", "1")
    data = status(spool)
    assert data["counts"] == ZEROS | {"queued": 9, "canceled": 1}
    assert data["scheduled"] == 4 and "scheduled_capped" not in data
    assert data["queues"] == {
        "b": {"counts": ZEROS | {"queued": 5}, "scheduled": 4},
        "default": {"counts": ZEROS | {"queued": 4, "canceled": 1}, "scheduled": 0},
    }
    assert (data["workers"], data["running_jobs"], data["recent_dead"], data["orphaned"]) == ([], [], [], 0)


@pytest.mark.parametrize(("later", "due"), [(150, 3), (3, 150), (120, 130), (199, 150), (200, 0), (250, 250)])
def test_scheduled_is_exact_up_to_the_cap(spool, monkeypatch, later, due):
    monkeypatch.setattr(limits, "SCHEDULED_CAP", 200)
    monkeypatch.setattr(store, "SCHEDULED_CAP", 200)
    for count, *flags in ((later, "--after", "1h"), (due,)):
        lines = "\n".join(f'{{"argv": ["true"], "priority": {i % 3}}}' for i in range(count))
        if count:
            spool.json("add", "--from", "-", *flags, stdin=lines.encode())
    data = status(spool)
    if later > 200:
        assert (data["scheduled"], data["scheduled_capped"]) == (200, True)
    else:
        assert data["scheduled"] == later == data["queues"]["default"]["scheduled"]
        assert "scheduled_capped" not in data


def test_a_live_worker_and_what_it_runs_then_its_death(spool):
    job, worker = running(spool, "--worker-id", "w1")
    data = status(spool)
    shown = data["workers"][0]
    assert {key: shown[key] for key in ("worker_id", "pid", "queue", "alive", "running", "concurrency")} == {
        "worker_id": "w1", "pid": worker.pid, "queue": "default", "alive": True, "running": 1,
        "concurrency": 1,
    }  # fmt: skip
    ran = data["running_jobs"][0]
    assert ran.pop("started_at") == spool.show(job)["attempts"][0]["started_at"]
    assert ran == {
        "id": job, "command": "sh -c while [ ! -e go ]; do sleep 0.02; done", "queue": "default",
        "worker_id": "w1", "attempt_no": 1, "orphaned": False, "ending": None,
    }  # fmt: skip
    assert data["orphaned"] == 0

    os.kill(worker.pid, signal.SIGSTOP)
    assert status(spool)["workers"][0]["alive"] is True, "a stopped worker lives"
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    data = status(spool)
    assert data["workers"][0]["alive"] is False
    assert data["orphaned"] == 1 and data["running_jobs"][0]["orphaned"] is True
    text = spool.run("status", check=0).text
    assert "(orphaned) sh -c" in text and "dead" in text
    # A look changes nothing; the next worker does.
    assert status(spool) == data
    (spool.path / "go").touch()
    spool.work(check=0)
    assert status(spool)["orphaned"] == 0


def test_a_worker_that_cannot_be_judged_is_null_and_its_job_no_orphan(spool):
    job, worker = running(spool)
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE workers SET boot_id = NULL")
    db.commit()
    data = status(spool)
    assert data["workers"][0]["alive"] is None
    assert data["orphaned"] == 0 and data["running_jobs"][0]["orphaned"] is False
    db.execute("DELETE FROM workers")
    db.commit()
    db.close()
    assert status(spool)["orphaned"] == 1, "its worker is not even known"
    (spool.path / "go").touch()
    worker.wait(20)
    assert spool.state(job) == "done"


def test_a_tree_that_cannot_be_ended_is_shown_as_ending(spool):
    _, worker = running(spool)
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE attempts SET ending_since = 5.5, ending_pids = '7,9', ending_why = 'not_permitted'")
    db.commit()
    db.close()
    ending = {"since": 5.5, "pids": [7, 9], "why": "not_permitted"}
    assert status(spool)["running_jobs"][0]["ending"] == ending
    assert spool.show(1)["job"]["ending"] == ending
    assert "cannot be ended" in spool.run("status").text
    (spool.path / "go").touch()
    worker.wait(20)


def test_deaths_come_last_first_with_the_place_of_their_output(spool):
    for code in (1, 2, 3):
        spool.add("--max-retries", "0", "-c", f"echo {code} >&2; exit {code}")
        spool.work(check=0)
    data = status(spool, "--limit", "2")
    assert [(job["id"], job["last_error"], job["attempts"]) for job in data["recent_dead"]] == [
        (3, "exit 3", 1), (2, "exit 2", 1),
    ]  # fmt: skip
    with open(data["recent_dead"][0]["stderr_path"]) as file:
        assert file.read() == "3\n"
    assert len(status(spool, "--limit", "0")["recent_dead"]) == 3
    assert status(spool) == status(spool), "nothing in it moves by itself"


def test_no_worker_is_said_for_due_commands_of_unserved_lanes_only(spool):
    spool.add("--queue", "later", "--after", "1h", "--", "true")
    assert spool.run("status", "--json").warnings == []
    spool.add("--queue", "b", "--", "true")
    running(spool)
    spool.add()
    answer = spool.run("status", "--json", check=0)
    assert [(w["code"], w["message"]) for w in answer.json["warnings"]] == [
        ("NO_WORKER", "spoolctl work --queue b")
    ]
    answer = spool.run("status", "--json", "--db", str(spool.db), check=0)
    assert answer.json["warnings"][0]["message"] == f"spoolctl work --db {spool.db} --queue b"
    assert answer.commands[0] == f"spoolctl work --db {spool.db} --drain --queue b"  # which returns
    (spool.path / "go").touch()


def test_payload_jobs_never_ask_for_a_worker_and_show_as_json(spool):
    spool.add("--", "true")
    spool.json("cancel", "1")
    db = opening.open_writer(paths.Spool(str(spool.db), "flag"))
    row = jobs.get(db, 1)
    payload = '{"to":"' + "x" * 100_000 + '"}'
    values = {**{name: row[name] for name in jobs.ADDED}, "kind": "payload", "argv": None, "payload": payload}
    with db.write() as conn:
        for _ in range(2):
            jobs.insert(conn, values, {})
        conn.execute("UPDATE jobs SET state = 'running', owner = 0, attempt_no = 1 WHERE id = 2")
        conn.execute(
            "INSERT INTO attempts (job_id, attempt_no, state, worker, worker_label, token, started_at,"
            " lease_expires_at) VALUES (2, 1, 'running', 0, 'consumer', 't', 1.0, 2.0)"
        )
    db.close()
    answer = spool.run("status", "--json", check=0)
    assert answer.warnings == []
    assert answer.data["counts"]["queued"] == 1
    assert answer.data["running_jobs"][0]["command"] == payload[:77] + "..."
    assert answer.data["orphaned"] == 0, "a lease of an outside consumer ends by its deadline"
    assert spool.show(2)["attempts"][0]["stdout_path"] is None


def test_the_text_escapes_and_fits_and_a_missing_database_stays_missing(spool):
    assert spool.run("status", check=0).text == "no jobs\n"
    assert spool.files() == []
    spool.add("--max-retries", "0", "--", "sh", "-c", "exit 1", "a\nb\x1b[2J" + "y" * 500)
    spool.work(check=0)
    spool.add("--queue", "other", "--", "true")
    text = spool.run("status", check=0).text
    assert "\x1b" not in text and "a\\nb\\x1b[2J" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "(all)" in text
