"""A queue that is locked for long, read-only, full, damaged or gone under its workers: results are kept
while that helps, and a worker that cannot go on ends its trees and leaves in order.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from support import alive, processes_of, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

GO = "until [ -e go ]; do sleep 0.02; done"


def last(spool, job_id):
    return spool.show(job_id)["attempts"][-1]


def told(spool, job_id):
    return [event["event"] for event in spool.show(job_id)["events"]]


def started(spool, job_id):
    spool.wait_for(job_id, "running")
    return wait_until(lambda: last(spool, job_id)["pid"], 20)


def test_a_lock_that_is_held_longer_than_any_patience_costs_nothing(spool):
    """Every kind of end happens meanwhile; what ended is kept and recorded, and asked for once only."""
    once = ("--max-retries", "0")
    good = spool.add(*once, "-c", f"{GO}; exit 0")
    bad = spool.add(*once, "-c", f"{GO}; exit 7")
    late = spool.add(*once, "--timeout", "1.5", "-c", "sleep 300")
    loud = spool.add(*once, "--max-output", "10", "-c", f"{GO}; cat /dev/zero")
    asked = spool.add(*once, "-c", "trap '' TERM; while :; do sleep 0.02; done")
    going = spool.add(*once, "-c", "until [ -e later ]; do sleep 0.02; done")
    worker = spool.start("work", "--json", "-j", "6", "--grace", "0.5", "--max-jobs", "7")
    pids = {job: started(spool, job) for job in (good, bad, late, loud, asked, going)}
    with open(spool.db.parent / "gate") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        began = time.monotonic()
        (spool.path / "go").touch()
        for job in (good, bad, late, loud):
            wait_until(lambda job=job: not alive(pids[job]), 20, f"the end of {job}")
        # A call gives up after 5 s: it says so, and may be repeated.
        answer = spool.cli("cancel", str(asked), "--running", "--yes", "--json", check=4)
        assert answer.code == "LOCKED"
        assert time.monotonic() - began > 5
        assert {spool.state(job) for job in pids} == {"running"}
        assert (alive(pids[going]), alive(pids[asked]), worker.poll()) == (True, True, None)
    spool.json("cancel", str(asked), "--running", "--yes")
    for job in (good, bad, late, loud, asked):
        spool.wait_for(job, "done", "dead", "canceled")
    assert [last(spool, job)["state"] for job in (good, bad, late, loud, asked)] == [
        "succeeded", "failed", "timed_out", "failed", "canceled",
    ]  # fmt: skip
    assert last(spool, loud)["failure_reason"] == "output_limit"
    assert spool.state(going) == "running"
    (spool.path / "later").touch()
    spool.wait_for(going, "done")
    assert {tuple(told(spool, job)) for job in (good, going)} == {("added", "claimed", "succeeded")}
    assert worker.poll() is None
    spool.add()  # its seventh
    assert worker.wait(20) == 0


def test_told_twice_while_somebody_keeps_the_lock_it_leaves_the_result_to_the_next(spool):
    job = spool.add("--backoff-base", "0", "-c", f"echo run >>log; {GO}")
    worker = spool.start("work", "--json")
    pid = started(spool, job)
    with open(spool.db.parent / "gate") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        (spool.path / "go").touch()
        wait_until(lambda: not alive(pid), 20)
        for _ in range(2):
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        out, _ = worker.communicate(timeout=30)
    assert (worker.returncode, json.loads(out)["ok"]) == (0, True)
    assert spool.state(job) == "running"
    assert spool.work(check=0).data["succeeded"] == 1
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]


@pytest.mark.parametrize("what", ["deleted", "a file instead of its folder"])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_worker_whose_queue_is_gone_ends_its_trees_and_says_why(spool, what, busy):
    pid = None
    job = spool.add("-c", "setsid sleep 300 & sleep 300 & echo up; wait")
    if not busy:
        spool.json("cancel", str(job))
    worker = spool.start("work", "--json", "--grace", "0.5")
    if busy:
        pid = started(spool, job)
    else:
        wait_until(lambda: spool.json("status")["workers"])
    if what == "deleted":
        spool.db.unlink()
    else:
        spool.db.parent.rename(spool.path / "elsewhere")
        spool.db.parent.touch()
    out, _ = worker.communicate(timeout=20)
    assert worker.returncode == 3
    assert json.loads(out)["errors"][0]["code"] == "DB_INVALID"
    assert pid is None or not alive(pid)
    assert processes_of(spool.path, spool.db) == []


@pytest.fixture
def device(spool):
    """The queue's folder is a small file system of its own; its options may be changed."""
    folder = spool.db.parent
    folder.mkdir(mode=0o700)

    def mount(*options):
        line = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        try:
            return subprocess.run(line, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount command")

    done = mount("size=1m", "mode=0700")
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    yield mount
    for worker in spool._started:
        if worker.poll() is None:
            spool.stop(worker)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path):
    """Take what room there is, to the last byte."""
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


def test_on_a_device_that_is_read_only_calls_say_so_and_change_nothing(spool, device):
    job = spool.add("--", "true")
    content = spool.db.read_bytes()
    assert device("remount", "ro").returncode == 0
    for words in (["add", "--", "true"], ["work", "--drain"], ["work", "--once"], ["cancel", str(job)]):
        assert spool.cli(words[0], "--json", *words[1:], check=3).code == "DB_READONLY", words
    for words in (["list"], ["status"], ["show", str(job)], ["events"]):
        assert spool.cli(words[0], "--json", *words[1:]).code in (None, "DB_READONLY"), words
    assert spool.db.read_bytes() == content
    assert device("remount", "rw").returncode == 0
    assert spool.work(check=0).data["succeeded"] == 1


def test_told_twice_on_a_disk_that_stays_full_it_leaves_the_result_to_the_next(spool, device):
    job = spool.add("--max-crashes", "1", "--backoff-base", "0", "-c", f"echo run >>log; {GO}")
    worker = spool.start("work", "--poll-interval", "0.1")
    pid = started(spool, job)
    with closing(sqlite3.connect(spool.db, timeout=20)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fill(spool.db.parent / "filler")
    (spool.path / "go").touch()
    wait_until(lambda: not alive(pid))
    os.set_blocking(worker.stderr.fileno(), False)
    wait_until(lambda: b"the disk is full" in (worker.stderr.read() or b""), 20)
    for _ in range(2):
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    assert worker.wait(20) == 0
    (spool.db.parent / "filler").unlink()
    assert spool.state(job) == "running"
    assert spool.work(check=0).data["succeeded"] == 1
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert (spool.path / "log").read_text() == "run\nrun\n"  # at least once, and the ledger says why


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
    pid = started(spool, job)
    damage(spool.db)
    for _ in range(2):
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.2)
    out, err = worker.communicate(timeout=30)
    answer = json.loads(out)
    assert worker.returncode in (0, 3)
    assert b"Traceback" not in err
    assert answer["ok"] or answer["errors"][0]["code"] in ("DB_INVALID", "INTERNAL")
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
    assert "SPOOLCTL_DEBUG=1" in error["remediation"]
