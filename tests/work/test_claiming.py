"""SPEC 5: which job a worker takes next, how many at once, when it leaves, and what it says then."""

from __future__ import annotations

import sys
import time

import pytest
from looking import change, last, rows
from support import finish, wait_until
from workers import GO

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def most_at_once(spool):
    """The most jobs that ran at the same time, by the ledger."""
    running = most = 0
    for (event,) in rows(spool, "SELECT event FROM job_events ORDER BY id"):
        running += {"claimed": 1, "succeeded": -1, "failed": -1}.get(event, 0)
        most = max(most, running)
    return most


def test_jobs_run_by_priority_then_time_then_number(spool):
    low = spool.add("--priority", "-1", "--", "true")
    third = spool.add("--at", "2000000", "--", "true")
    second = spool.add("--at", "2000000", "--priority", "5", "--", "true")
    fourth = spool.add()
    first = spool.add("--priority", "7", "--", "true")
    change(spool, f"UPDATE jobs SET next_run_at = 1000 WHERE id = {fourth}")
    delayed = spool.add("--priority", "9", "--after", "1h", "--", "true")
    other = spool.add("--priority", "9", "--queue", "other", "--", "true")
    spool.work(check=0)
    order = [
        job for (job,) in rows(spool, "SELECT job_id FROM job_events WHERE event = 'claimed' ORDER BY id")
    ]
    assert order == [first, second, fourth, third, low]
    assert (spool.state(delayed), spool.state(other)) == ("queued", "queued")


def test_concurrency_runs_that_many_at_once(spool):
    meet = 'touch "$SPOOLCTL_JOB_ID.here"; until [ $(ls *.here | wc -l) -ge 3 ]; do sleep 0.02; done'
    jobs = [spool.add("--timeout", "20", "--max-retries", "0", "-c", meet) for _ in range(6)]
    assert spool.work("-j", "3", check=0).data["succeeded"] == 6
    assert most_at_once(spool) == 3
    assert {spool.state(job) for job in jobs} == {"done"}


def test_slots_are_one_ceiling_for_all_workers(spool):
    spool.json("add", "--from", "-", stdin=b"sleep 0.03\n" * 24)
    workers = [spool.start("work", "--drain", "--json", "--slots", "2", "-j", str(j)) for j in (1, 1, 4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert most_at_once(spool) <= 2
    assert spool.json("status")["counts"]["done"] == 24


def test_one_worker_stays_below_its_own_ceiling_and_full_slots_are_not_claimed(spool):
    spool.json("add", "--from", "-", stdin=f"{GO}\n".encode() * 6)
    worker = spool.start("work", "--drain", "--json", "--slots", "2", "-j", "4")
    wait_until(lambda: spool.json("status")["counts"]["running"] == 2)
    assert spool.work("--once", "--slots", "2", check=0).data == {"claimed": False}
    assert spool.work("--idle-timeout", "0", "--slots", "1", check=0).data == {"stopped": True, "executed": 0}
    (spool.path / "go").touch()
    assert worker.wait(30) == 0
    assert most_at_once(spool) == 2
    # Other lanes have slots of their own.
    spool.add("--queue", "other", "--", "true")
    assert spool.work("--once", "--queue", "other", "--slots", "1", check=0).data["claimed"]


def test_once_runs_one_job_and_says_how_it_went(spool):
    line = ("--max-retries", "1", "--backoff-base", "1h", "-c")
    jobs = [spool.add(*line, script) for script in ("true", "exit 1", "sleep 60", "exit 2")]
    change(spool, f"UPDATE jobs SET timeout = 0.2 WHERE id = {jobs[2]}")
    change(spool, f"UPDATE jobs SET max_retries = 0 WHERE id = {jobs[3]}")
    answers = [spool.work("--once", check=0).data for _ in jobs]
    assert [(a["job_id"], a["attempt_no"], a["result"], a["job_state"]) for a in answers] == [
        (jobs[0], 1, "succeeded", "done"),
        (jobs[1], 1, "failed", "queued"),
        (jobs[2], 1, "timed_out", "queued"),
        (jobs[3], 1, "failed", "dead"),
    ]
    assert all(answer["claimed"] for answer in answers)
    assert spool.cli("work", "--once", check=0).text == "nothing to run\n"


def test_once_and_drain_on_nothing_write_nothing(spool):
    assert spool.work("--once", check=0).data == {"claimed": False}
    drained = {"drained": True, "executed": 0, "succeeded": 0, "failed": 0, "dead": 0, "unsettled": []}
    assert spool.work(check=0).data == drained
    assert spool.files() == []
    spool.add("--queue", "other", "--", "true")
    spool.add("--after", "1h", "--", "true")
    bytes_before = spool.db.read_bytes()
    files, mtime = spool.files(), spool.db.stat().st_mtime_ns
    assert spool.work("--once", check=0).data == {"claimed": False}
    assert spool.work(check=0).data == drained
    assert (spool.db.read_bytes(), spool.files()) == (bytes_before, files)
    assert spool.db.stat().st_mtime_ns == mtime
    assert rows(spool, "SELECT count(*) FROM workers") == [(0,)]


def test_a_worker_leaves_after_so_many_attempts(spool):
    jobs = [spool.add("--max-retries", "0", "-c", "exit 1")] + [spool.add() for _ in range(4)]
    assert spool.work("--max-jobs", "2", check=0).data == {"stopped": True, "executed": 2}
    assert spool.work("--max-jobs", "2", "-j", "5", "--drain", check=0).data == {
        "drained": False, "executed": 2, "succeeded": 2, "failed": 0, "dead": 0, "unsettled": [],
    }  # fmt: skip
    assert [spool.state(job) for job in jobs] == ["dead", "done", "done", "done", "queued"]
    assert spool.work("--max-jobs", "3", "--drain", check=0).data["drained"] is True


def test_idle_time_counts_from_the_last_thing_to_do(spool):
    spool.add("-c", "sleep 0.6")
    began = time.monotonic()
    assert spool.work("--idle-timeout", "0.3", check=0).data == {"stopped": True, "executed": 1}
    assert time.monotonic() - began >= 0.9
    spool.add("--backoff-base", "1h", "--", "false")
    assert spool.work("--idle-timeout", "0", check=0).data == {"stopped": True, "executed": 1}
    assert spool.work("--idle-timeout", "0", "--drain", check=0).data["drained"] is False
    assert rows(spool, "SELECT count(*) FROM workers") == [(0,)]


def test_strict_tells_of_jobs_that_died(spool):
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--strict", "--queue", "other").exit == 0
    answer = spool.work("--strict")
    assert (answer.exit, answer.data["dead"]) == (6, 1)
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--once", "--strict").exit == 6
    spool.add("--max-retries", "1", "--backoff-base", "1h", "--", "false")
    assert spool.work("--once", "--strict").exit == 0
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--idle-timeout", "0").exit == 0


def test_drain_waits_for_backoff_and_for_others_but_not_for_what_is_delayed(spool):
    delayed = spool.add("--after", "1h", "--", "true")
    backing = spool.add("--backoff-base", "0.4", "-c", "test -e tried || { touch tried; exit 7; }")
    done = spool.work(check=0).data
    assert done == {"drained": True, "executed": 2, "succeeded": 1, "failed": 1, "dead": 0, "unsettled": []}
    assert (spool.state(delayed), spool.state(backing)) == ("queued", "done")

    running = spool.add("-c", GO)
    other = spool.start("work", "--json")
    spool.wait_for(running, "running")
    drain = spool.start("work", "--drain", "--json", "--poll-interval", "0.1")
    elsewhere = spool.work("--queue", "elsewhere", check=0).data
    assert elsewhere["drained"]
    assert drain.poll() is None
    (spool.path / "go").touch()
    assert drain.wait(20) == 0
    assert spool.state(running) == "done"
    assert other.poll() is None


@linux
def test_drain_names_what_it_cannot_wait_for(spool):
    jobs = [spool.add("-c", GO) for _ in range(2)]
    worker = spool.start("work", "--json", "-j", "2")
    for job in jobs:
        spool.wait_for(job, "running")
    change(spool, "UPDATE attempts SET ending_since = 1, ending_pids = '1', ending_why = 'uninterruptible' "
           f"WHERE job_id = {jobs[0]}")  # fmt: skip
    drain = spool.start("work", "--drain", "--json")
    wait_until(lambda: len(spool.json("status")["running_jobs"]) == 2)
    assert drain.poll() is None  # the other one has a live owner
    change(spool, "UPDATE workers SET boot_id = NULL")
    data = finish(drain, 20, check=0).data
    assert (data["drained"], data["executed"], data["unsettled"]) == (True, 0, jobs)
    (spool.path / "go").touch()
    spool.wait_for(jobs[1], "done")
    assert worker.poll() is None


def test_progress_is_told_on_stderr_a_line_an_attempt(spool):
    spool.add("--max-retries", "0", "-c", "exit 4")
    spool.add()
    answer = spool.cli("work", "--drain", check=0)
    lines = answer.err.splitlines()
    assert lines[0].startswith("spoolctl: job 1 attempt 1 failed (exit 4) in ")
    assert lines[0].endswith(": dead")
    assert lines[1].startswith("spoolctl: job 2 attempt 1 succeeded in ")
    assert len(lines) == 2
    assert answer.text == "drained: 2 attempts: 1 succeeded, 1 failed, 1 job dead\n"


def test_a_worker_that_waits_makes_the_database_and_takes_what_comes(spool):
    worker = spool.start(
        "work", "--json", "--poll-interval", "0.05", "--max-jobs", "2", "--worker-id", "first"
    )
    wait_until(spool.db.exists)
    wait_until(lambda: [w["worker_id"] for w in spool.json("status")["workers"]] == ["first"])
    now = spool.add()
    soon = spool.add("--after", "0.5", "--", "true")
    assert worker.wait(20) == 0
    assert (spool.state(now), spool.state(soon)) == ("done", "done")
    assert last(spool, soon)["started_at"] >= spool.show(soon)["job"]["created_at"] + 0.49
    assert finish(worker, check=0).data == {"stopped": True, "executed": 2}
    assert spool.json("status")["workers"] == []
    assert list((spool.db.parent / "workers").iterdir()) == []
