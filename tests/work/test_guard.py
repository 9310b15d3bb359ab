"""SPEC 6: whoever lost an attempt cannot write about it any more. Each write is made late, and a worker
that was overtaken is let go on.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing

import pytest
from looking import change, details, ended, last, log_of, opened, started, told
from support import alive, finish, wait_until
from workers import ALONE, GO, children_of, dropped, hooked, kill, refusals, state_of, stopped, talking

from spoolctl import clock
from spoolctl.store import claim, control, owners, prune, settle
from spoolctl.work import pursuit
from spoolctl.work.pursuit import Pursuit
from spoolctl.work.reap import Reaper

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


# --- a worker that was overtaken --------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["still runs", "has ended by itself"])
def test_an_overtaken_worker_drops_its_result_and_its_slots_count_right(spool, command, patient):
    """It takes its own old job anew, in the very turn in which it learns that it lost it."""
    script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ until [ -e first ]; do sleep 0.02; done; exit 0; }}; {GO}"
    job = spool.add("--priority", "5", "-c", ALONE + script)
    worker = talking(spool, "-j", "2", "--poll-interval", "0.1", "--grace", "0.5")
    pid = started(spool, job)
    wait_until(lambda: log_of(spool), 20)
    before = children_of(worker.pid) - {pid}
    with stopped(worker):
        if command == "has ended by itself":
            (spool.path / "first").touch()
            wait_until(lambda: not alive(pid), 10)
        assert spool.json("retry", str(job), "--force")["state"] == "queued"
        assert not alive(pid)
        jobs = [spool.add("-c", f"echo run >>log; {GO}") for _ in range(3)]
    started(spool, job, number=2)
    started(spool, jobs[0])
    wait_until(lambda: refusals(spool), 10, "the line that tells of the dropped result")
    # Two slots, two commands, two children: the old attempt holds neither a slot nor a zombie.
    wait_until(lambda: len(children_of(worker.pid) - before) == 2, 10, "the old leader to be reaped")
    assert [spool.state(one) for one in jobs] == ["running", "queued", "queued"]
    (spool.path / "go").touch()
    for one in (job, *jobs):
        spool.wait_for(one, "done")
    assert told(spool, job) == ["added", "claimed", "retried", "claimed", "succeeded"]
    assert ended(spool.show(job)["attempts"][0]) == ("abandoned", "canceled", "force-retried")
    assert sorted(log_of(spool)) == ["run", "run", "run", "start", "start"]
    wait_until(lambda: children_of(worker.pid) == before, 10, "no child left")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert refusals(spool) == [dropped(job)]


def test_equal_worker_ids_do_not_make_two_workers_one(spool, patient):
    script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ until [ -e first ]; do sleep 0.02; done; exit 0; }}; {GO}"
    job = spool.add("-c", ALONE + script)
    flags = ("--poll-interval", "0.1", "--grace", "0.5", "--worker-id", "same")
    overtaken = talking(spool, *flags)
    pid = started(spool, job)
    other = spool.start("work", "--json", "-j", "2", *flags)
    wait_until(lambda: len(spool.json("status")["workers"]) == 2)
    bystander = spool.add("-c", GO)
    left = started(spool, bystander)
    with stopped(overtaken):
        (spool.path / "first").touch()
        wait_until(lambda: not alive(pid), 10)
        spool.json("retry", str(job), "--force")
        pid = started(spool, job, number=2)
    # The first worker's result is late, although it bears the name of the one that runs the job now.
    wait_until(lambda: refusals(spool), 10, "the line that tells of the dropped result")
    assert (alive(pid), alive(left)) == (True, True)
    assert [(a["state"], a["worker_pid"]) for a in spool.show(job)["attempts"]] == [
        ("abandoned", overtaken.pid), ("running", other.pid),
    ]  # fmt: skip
    kill(overtaken)  # and its death takes nothing from the other
    spool.work("--queue", "elsewhere", "--idle-timeout", "1.5", check=0)
    assert (alive(pid), alive(left)) == (True, True)
    (spool.path / "go").touch()
    for one in (job, bystander):
        spool.wait_for(one, "done")
    assert told(spool, job) == ["added", "claimed", "retried", "claimed", "succeeded"]
    assert told(spool, bystander) == ["added", "claimed", "succeeded"]


def test_a_leader_that_is_written_down_too_late_is_ended_and_the_new_one_left_alone(spool, patient):
    script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300; {GO}"
    job = spool.add("-c", ALONE + script)
    late = hooked(spool, "spawned", signal.SIGSTOP, "work", "--once", "--grace", "10")
    wait_until(lambda: log_of(spool) == ["start"], 20)
    wait_until(lambda: state_of(late.pid) == "T", 10)
    change(spool, "UPDATE workers SET boot_id = NULL")  # only then may a job be taken before its record
    answer = spool.run("retry", str(job), "--force", "--unverified", "--json", check=0)
    assert answer.warnings == ["UNVERIFIABLE_OWNER"]
    assert details(spool, job, "retried") == ["forced, unverified"]
    other = spool.start("work", "--json", "--once")
    pid = started(spool, job, number=2)
    late.send_signal(signal.SIGCONT)
    _, err = late.communicate(timeout=20)
    assert err.decode().splitlines() == [dropped(job)]
    assert last(spool, job)["pid"] == pid
    assert spool.show(job)["attempts"][0]["pid"] is None
    assert alive(pid)
    (spool.path / "go").touch()
    assert other.wait(20) == 0
    assert spool.state(job) == "done"
    assert log_of(spool) == ["start", "start"]


def test_of_reapers_and_a_caller_that_saw_the_same_death_one_settles(spool):
    jobs = [spool.add("--backoff-base", "1h", "--backoff-max", "1h", "--", "sleep", "300") for _ in "ab"]
    worker = spool.start("work", "--json", "-j", "2", "--grace", "0.5")
    pids = [started(spool, job) for job in jobs]
    kill(worker)
    with opened(spool) as one, opened(spool) as two, opened(spool) as three:
        caller = Pursuit(three, owners.running_job(three, jobs[0]), "cancel", False, None)
        reapers = [(db, Reaper(db, None)) for db in (one, two)]
        for _, reaper in reapers:
            reaper.look(0)
        over = [wait_until(lambda reaper=reaper: _whole(reaper), 20) for _, reaper in reapers]
        assert not any(alive(pid) for pid in pids)
        states = []
        for (db, _), found in zip(reapers, over):
            with db.write() as conn:
                states.append([settle.settle(conn, reaping.outcome(), clock.now()) for reaping in found])
        assert states == [["queued", "queued"], [None, None]]
        with three.write() as conn:
            caller.ask(conn, clock.now())
        assert caller.outcome == pursuit.MOVED
    for job in jobs:
        assert told(spool, job) == ["added", "claimed", "reaped"]
        shown = spool.show(job)["job"]
        assert (shown["state"], shown["attempts"], shown["crashes"]) == ("queued", 1, 1)


def _whole(reaper):
    found = reaper.step(clock.monotonic())
    return found if len(found) == 2 else None


# --- a job that was taken away ----------------------------------------------------------------------------


def take_away(spool, job_id):
    """What a reaper elsewhere would have done to a running job."""
    with closing(sqlite3.connect(spool.db, timeout=20)) as db, db:  # both at once, or the worker sees half
        db.execute("UPDATE attempts SET state = 'abandoned', finished_at = 1 WHERE job_id = ?", (job_id,))
        db.execute(
            "UPDATE jobs SET state = 'queued', owner = NULL, next_run_at = 4e9 WHERE id = ?", (job_id,)
        )


def test_a_job_that_was_taken_away_is_ended_and_its_result_dropped(spool):
    job = spool.add("-c", "setsid sleep 300 & echo up; wait")
    worker = spool.start("work", "--poll-interval", "0.1")
    pid = started(spool, job, b"up")
    take_away(spool, job)
    wait_until(lambda: not alive(pid), 10)
    after = spool.add("--", "true")
    spool.wait_for(after, "done")
    assert ended(last(spool, job))[0] == "abandoned"
    assert spool.state(job) == "queued"
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=20)
    lines = err.decode().splitlines()
    assert lines[0] == dropped(job)
    assert len(lines) == 2


def test_a_late_result_is_refused(spool):
    job = spool.add("-c", GO)
    worker = spool.start("work", "--once", "--json")
    pid = started(spool, job)
    with stopped(worker):
        take_away(spool, job)
        (spool.path / "go").touch()
        wait_until(lambda: not alive(pid), 10)
    data = finish(worker, 20, check=0).data
    assert data == {"claimed": True, "job_id": job, "attempt_no": 1, "result": "lost", "job_state": None}
    assert (spool.state(job), last(spool, job)["finished_at"]) == ("queued", 1)


def test_once_says_that_it_lost_its_job(spool):
    job = spool.add("-c", "exec sleep 300")
    worker = spool.start("work", "--once", "--json")
    started(spool, job)
    take_away(spool, job)
    assert finish(worker, 20, check=0).data["result"] == "lost"
    assert spool.state(job) == "queued"


# --- every write, made late -------------------------------------------------------------------------------


def outcome(number, state, event, cost=settle.FREE, reason=None):
    return settle.Outcome(1, number, state, event, cost, reason, reason, worker_id="late", exit_code=3)


SETTLED = {
    "succeeded": ("succeeded", "succeeded", settle.FREE, None),
    "failed": ("failed", "failed", settle.FAILURE, "process_exit"),
    "not started": ("failed", "failed", settle.FAILURE, "spawn_failed"),
    "timed out": ("timed_out", "timed_out", settle.FAILURE, "timeout"),
    "interrupted": ("abandoned", "interrupted", settle.FREE, "worker_shutdown"),
    "reaped": ("abandoned", "reaped", settle.CRASH, "worker_crash"),
    "canceled": ("canceled", None, settle.FREE, "canceled"),
    "queued again": ("abandoned", None, settle.FREE, "canceled"),
}

LATE = {
    **{
        name: lambda db, conn, made=made: settle.settle(conn, outcome(1, *made), NOW)
        for name, made in SETTLED.items()
    },
    "stuck": lambda db, conn: settle.mark_stuck(conn, 1, 1, [77], "not_permitted", "late", NOW),
    "cancel": lambda db, conn: control.request(conn, 1, 1, "cancel", "late", NOW),
    "requeue": lambda db, conn: control.request(conn, 1, 1, "requeue", "late", NOW),
    "stamp": lambda db, conn: control.stamp(conn, 1, 1, NOW),
    "take back a cancel": lambda db, conn: control.take_back(conn, 1, 1, "cancel"),
    "take back a requeue": lambda db, conn: control.take_back(conn, 1, 1, "requeue"),
}

NOW = 2e9


def claim_it(db, instance):
    owner = {"instance": instance, "label": "w", "pid": 1, "boot_id": "b", "pid_ns": "n"}
    with db.write() as conn:
        assert [
            row["id"] for row in claim.claim(conn, db, "default", "command", 1, None, owner, NOW, 1.0)
        ] == [1]


def end_it(db, number, *made):
    with db.write() as conn:
        assert settle.settle(conn, outcome(number, *made), NOW)


@pytest.mark.parametrize("meanwhile", ["queued", "running", "running, asked", "done", "dead", "pruned"])
def test_no_write_about_an_attempt_changes_anything_once_its_number_has_moved_on(spool, meanwhile):
    spool.add("--max-retries", "1", "--key", "k", "true")
    with opened(spool) as db:
        claim_it(db, 7)
        end_it(db, 1, *SETTLED["queued again" if meanwhile == "pruned" else "interrupted"])
        if meanwhile != "queued":
            claim_it(db, 8)
        if meanwhile in ("done", "pruned"):
            end_it(db, 2, *SETTLED["succeeded"])
        elif meanwhile == "dead":
            end_it(db, 2, "failed", "failed", settle.CRASH, "worker_crash")
        for request in ("cancel", "requeue") if meanwhile == "running, asked" else (None,):
            if request:
                change(
                    spool, f"UPDATE jobs SET request = '{request}', request_detail = 'x', requested_at = 1"
                )
            if meanwhile == "pruned":
                prune.delete(db, prune.selection(db, ["done"], NOW + 1))
            before = everything(db)
            for name, late in LATE.items():
                with db.write() as conn:
                    assert not late(db, conn), name
                assert everything(db) == before, name
            child = {"job_id": 1, "attempt_no": 1, "pid": 77, "pid_start": 77, "session": 77}
            with db.write(full=False) as conn:
                assert claim.record_children(conn, [child]) == [child]
            assert everything(db) == before
            # A caller that saw the old attempt does not take a request to the new one for its own.
            caller = Pursuit(db, {"id": 1, "attempt_no": 1, "owner": 7}, request or "cancel", False, None)
            with db.write() as conn:
                caller.ask(conn, NOW)
            assert (caller.outcome, everything(db)) == (pursuit.MOVED, before)


def everything(db):
    tables = ("jobs", "attempts", "job_events", "job_tags", "counts", "workers")
    return {table: db.all(f"SELECT * FROM {table}") for table in tables}
