"""Promise 1: an answer is written only after the log has reached the disk, and so is a recorded result.

SIGKILL cannot show this, since what a process wrote outlives it in memory: the order of system calls does.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest
from looking import started
from support import clean_env, document, wait_until

from spoolctl import hooks, paths
from spoolctl.store import db as store_db
from spoolctl.store import open as store_open
from spoolctl.store.checkpoint import Checkpointer
from spoolctl.store.gate import Gate

with_strace = pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")


def calls(spool, *words):
    """(name, descriptor, path) of each write and sync of a call, in order."""
    trace = spool.path / "trace"
    strace = ["strace", "-y", "-qq", "-e", "trace=fdatasync,fsync,pwrite64,write", "-e", "signal=none"]
    line = [*strace, "-o", str(trace), sys.executable, "-B", "-m", "spoolctl", *words]
    done = subprocess.run(line, cwd=spool.path, env=clean_env(), capture_output=True, timeout=60)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace")
    document(done.stdout, *words, status=done.returncode)
    return [re.match(r"(\w+)\((\d+)<([^>]*)>", line).groups() for line in trace.read_text().splitlines()]


def steps(spool, *words):
    """`log` for each write to the log, `sync` for each sync of it, `answer` for stdout, in order."""
    found = []
    for name, fd, path in calls(spool, *words):
        if path.endswith("queue.db-wal"):
            found.append("log" if "write" in name else "sync")
        elif fd == "1":
            found.append("answer")
    return found


@with_strace
@pytest.mark.parametrize(
    "words",
    [
        ("add", "--json", "--", "true"),
        ("add", "--json", "--from", "lines"),
        ("cancel", "--json", "1"),
        ("cancel", "--json", "2", "--running", "--yes"),
        ("retry", "--json", "3"),
        ("retry", "--json", "2", "--force"),
        ("prune", "--json", "--older-than", "0", "--state", "dead", "--yes"),
        ("work", "--json", "--once", "--queue", "other"),
    ],
    ids=" ".join,
)
def test_nothing_is_answered_before_the_log_is_on_disk(spool, words):
    (spool.path / "lines").write_text("true\n" * 5)
    spool.add()
    spool.add("--queue", "running", "--", "sleep", "300")
    spool.add("--queue", "failing", "--max-retries", "0", "--", "false")
    spool.work("--queue", "failing")
    spool.add("--queue", "other", "--", "true")
    spool.start("work", "--queue", "running", "--grace", "0.2")  # attached: no close is the last
    started(spool, 2)
    found = steps(spool, *words)
    before = found[: found.index("answer")]
    assert "log" in before
    # The last writes of a worker and of a prune are their own, promised to nobody.
    last = len(before) - 1 - before[::-1].index("log")
    first = before.index("log") if words[0] in ("work", "prune") else last
    assert "sync" in before[first:], before


@with_strace
def test_a_first_add_makes_its_directories_safe_too(spool):
    found = calls(spool, "add", "--json", "--db", "new/deep/queue.db", "--", "true")
    synced = {path for name, _, path in found[: [fd for _, fd, _ in found].index("1")] if name == "fsync"}
    here = os.path.realpath(spool.path)
    assert {here, f"{here}/new", f"{here}/new/deep"} <= synced


def test_no_commit_can_overlap_a_checkpoint(tmp_path, monkeypatch):
    spool = paths.Spool(os.path.realpath(tmp_path) + "/queue.db", "flag")
    db = store_open.open_writer(spool, create=True)
    passed = []

    def another_writes():
        other = sqlite3.connect(spool.db, timeout=0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
        passed.append(True)

    for point in ("checkpoint: begun", "checkpoint: made"):
        monkeypatch.setitem(hooks.AT, point, another_writes)
    made = Checkpointer(db, 1)
    made.run()
    made.close()
    db.close()
    assert passed == [True, True]


def test_a_checkpoint_that_cannot_be_made_takes_no_answer_back(spool, monkeypatch):
    """The job is on disk by then: an answer that asks for another try would have it added twice."""
    spool.add()
    spool.start("work", "--queue", "other")  # attached: the log stays
    wait_until(lambda: spool.json("status")["workers"], 20)
    monkeypatch.setattr(store_db, "ADD_TRIGGER", 1)

    def full():
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setitem(hooks.AT, "checkpoint: begun", full)
    before = sum(spool.json("status")["counts"].values())
    assert spool.add() == before + 1
    monkeypatch.delitem(hooks.AT, "checkpoint: begun")

    def taken():  # between the commit and the checkpoint
        monkeypatch.delitem(hooks.AT, "gate left")
        holder.append(os.open(f"{spool.db.parent}/gate", os.O_RDWR))
        fcntl.flock(holder[0], fcntl.LOCK_EX)

    holder: list[int] = []
    monkeypatch.setattr(Gate.__init__, "__defaults__", (0.1, True))
    monkeypatch.setitem(hooks.AT, "gate left", taken)
    try:
        assert spool.add() == before + 2
    finally:
        os.close(holder[0])
