"""A queue that is gone, damaged or of another schema under its workers: whoever cannot go on ends its trees,
says why, and leaves.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from looking import change, started, told
from support import alive, finish, processes_of, refused, wait_until
from workers import GO, tell

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
@pytest.mark.parametrize(
    "what", ["deleted", "replaced", "its file deleted", "its folder moved", "a file instead of its folder"]
)
def test_a_worker_whose_queue_is_gone_ends_its_trees_and_says_why(spool, what, busy):
    tree = spool.add("-c", "setsid sleep 300 & sleep 300 & echo up; wait")
    short = spool.add("-c", GO)
    if not busy:
        spool.json("cancel", str(tree), str(short))
    worker = spool.start("work", "--json", "-j", "2", "--grace", "0.5")
    wait_until(lambda: spool.json("status")["workers"], 20)
    pids = [started(spool, tree, b"up"), started(spool, short)] if busy else []
    if what in ("deleted", "replaced"):
        for suffix in ("", "-wal", "-shm"):
            os.unlink(f"{spool.db}{suffix}")
    elif what == "its file deleted":
        spool.db.unlink()
    else:
        spool.db.parent.rename(spool.path / "elsewhere")
    if what == "replaced":
        other = spool.add("-c", "echo must not run >ran")
    elif what == "a file instead of its folder":
        spool.db.parent.touch()
    (spool.path / "go").touch()
    error = refused(finish(worker, 20, check=3), "DB_INVALID")
    if what != "a file instead of its folder":
        assert "deleted or replaced" in error["message"]
    assert not any(alive(pid) for pid in pids)
    assert processes_of(spool.path, spool.db) == []
    if what == "replaced":
        assert told(spool, other) == ["added"]


def test_a_worker_of_an_older_schema_finishes_what_runs_and_asks_for_a_restart(spool):
    job = spool.add("-c", GO)
    worker = spool.start("work", "--json", "-j", "2", "--poll-interval", "0.1")
    started(spool, job)
    queued = spool.add("--after", "1h", "--", "true")
    change(spool, "PRAGMA user_version = 2")
    change(spool, f"UPDATE jobs SET next_run_at = 1 WHERE id = {queued}")
    time.sleep(0.5)  # the delayed job's time has come, and nobody may claim it
    (spool.path / "go").touch()
    assert "restart" in refused(finish(worker, 20, check=3), "DB_INVALID")["message"]
    change(spool, "PRAGMA user_version = 1")
    assert (spool.state(job), spool.state(queued)) == ("done", "queued")
    assert told(spool, queued) == ["added"]


def garbage(db):
    with open(db, "r+b") as file:
        file.write(b"something else " * 5000)


def emptied(db):
    os.truncate(db, 0)


def log_removed(db):
    os.unlink(f"{db}-wal")


def log_damaged(db):
    with open(f"{db}-wal", "r+b") as file:
        file.write(b"something else " * 5000)


@pytest.mark.parametrize("damage", [garbage, emptied, log_removed, log_damaged])
def test_whatever_happens_to_the_file_a_worker_that_is_told_to_leaves_and_leaves_nothing_running(
    spool, damage
):
    """From its own cache it may go on for a while; what it started is ended in any case."""
    job = spool.add("-c", "setsid sleep 300 & sleep 300 & echo up; wait")
    worker = spool.start("work", "--json", "--grace", "0.5")
    pid = started(spool, job, b"up")
    damage(spool.db)
    tell(worker, signal.SIGTERM, signal.SIGINT)
    answer = finish(worker, 30)
    assert (answer.exit, answer.code) in [(0, None), (3, "DB_INVALID"), (3, "INTERNAL")]
    assert not alive(pid)
    assert processes_of(spool.path, spool.db) == []


def test_a_fault_of_ours_is_told_although_its_trace_has_no_place(spool, monkeypatch):
    """A pipe that nobody reads stands where the trace would be written."""
    from spoolctl.verbs import list as verb

    def broken(args, ctx):
        ctx.spool()
        raise RuntimeError("as if by a mistake")

    spool.add()
    os.mkfifo(f"{spool.db}.fault")
    monkeypatch.setattr(verb, "run", broken)
    error = spool.run("list", "--json", check=3).error
    assert error["code"] == "INTERNAL"
    assert "SPOOLCTL_DEBUG=1" in error["message"]
