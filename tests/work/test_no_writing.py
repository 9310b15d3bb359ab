"""A queue that takes no write for a while, because it is locked, full or read-only: results are kept, and
who is told to leave meanwhile leaves them to the next.
"""

from __future__ import annotations

import fcntl
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest
from looking import change, ended, last, log_of, started, told
from support import alive, finish, processes_of, wait_until
from workers import DEAF, GO, TALKS, held, lines_of, scripted, talking, tell

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

# --- locked -----------------------------------------------------------------------------------------------


@contextmanager
def locked(spool, how="gate"):
    """Somebody else holds the write lock: a foreign writer (no gate), or one of ours at the gate."""
    if how == "gate":
        with open(spool.db.parent / "gate") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield
        return
    with closing(sqlite3.connect(spool.db, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@pytest.mark.parametrize("how", ["gate", "foreign"])
def test_a_worker_goes_on_after_somebody_held_the_lock(spool, how):
    job = spool.add("-c", GO)
    late = spool.add("--timeout", "0.6", "--max-retries", "0", "--", "sleep", "300")
    # Held until somebody has the lock: before, no time is up.
    worker = held(spool, "--json", "-j", "2", "--poll-interval", "0.1")
    started(spool, job)
    pid = started(spool, late)
    with locked(spool, how):
        worker.send_signal(signal.SIGCONT)
        (spool.path / "go").touch()
        began = time.monotonic()
        wait_until(lambda: not alive(pid), 20, "the timeout, although nothing can be recorded")
        time.sleep(max(0, began + 1.5 - time.monotonic()))
        assert (spool.state(job), spool.state(late)) == ("running", "running")
        begun = spool.start("work", "--json", "--drain")
        idle = spool.start("work", "--json", "--max-jobs", "1", "--queue", "other")
        time.sleep(0.5)
        assert (begun.poll(), idle.poll()) == (None, None)
    spool.wait_for(job, "done")
    spool.wait_for(late, "dead")
    assert last(spool, late)["state"] == "timed_out"
    assert begun.wait(20) == 0
    spool.add("--queue", "other", "--", "true")
    assert idle.wait(20) == 0
    assert worker.poll() is None


def test_a_lock_that_is_held_longer_than_any_patience_costs_nothing(spool):
    """Every kind of end happens meanwhile; what ended is kept and recorded, and asked for once only."""
    once = ("--max-retries", "0")
    good = spool.add(*once, "-c", f"{GO}; exit 0")
    bad = spool.add(*once, "-c", f"{GO}; exit 7")
    late = spool.add(*once, "--timeout", "1.5", "-c", "sleep 300")
    loud = spool.add(*once, "--max-output", "10", "-c", f"{GO}; cat /dev/zero")
    deaf = spool.add(*once, "-c", DEAF)
    going = spool.add(*once, "-c", "until [ -e later ]; do sleep 0.02; done")
    # Held until somebody has the lock: before, no time is up.
    worker = held(spool, "--json", "-j", "6", "--grace", "0.5", "--max-jobs", "7")
    pids = {job: started(spool, job) for job in (good, bad, late, loud, deaf, going)}
    with locked(spool):
        worker.send_signal(signal.SIGCONT)
        began = time.monotonic()
        (spool.path / "go").touch()
        for job in (good, bad, late, loud):
            wait_until(lambda job=job: not alive(pids[job]), 20, f"the end of {job}")
        # A call gives up after 5 s: it says so, and may be repeated.
        answer = spool.cli("cancel", str(deaf), "--running", "--yes", "--json", check=4)
        assert answer.code == "LOCKED"
        assert time.monotonic() - began > 5
        assert {spool.state(job) for job in pids} == {"running"}
        assert (alive(pids[going]), alive(pids[deaf]), worker.poll()) == (True, True, None)
    spool.json("cancel", str(deaf), "--running", "--yes")
    for job in (good, bad, late, loud, deaf):
        spool.wait_for(job, "done", "dead", "canceled")
    assert [last(spool, job)["state"] for job in (good, bad, late, loud, deaf)] == [
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
    with locked(spool):
        (spool.path / "go").touch()
        wait_until(lambda: not alive(pid), 20)
        tell(worker, signal.SIGTERM, signal.SIGINT)
        finish(worker, 30, check=0)
    assert spool.state(job) == "running"
    assert spool.work(check=0).data["succeeded"] == 1
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]


def test_a_lock_that_was_busy_long_ago_is_forgotten(spool):
    """Told twice, it leaves a result to others only when nothing can be written for long now."""
    busy = "flock .spoolctl/gate sleep 0.4; touch busy; exec sleep 300"
    job = spool.add("--max-retries", "0", "--max-crashes", "0", "-c", busy)
    worker = spool.start("work", "--json")
    wait_until(lambda: (spool.path / "busy").exists(), 20)
    started(spool, job)
    time.sleep(5.2)  # longer ago than the time it would wait for the lock
    with locked(spool):
        tell(worker, signal.SIGTERM, signal.SIGINT)
        time.sleep(0.6)
        assert worker.poll() is None
    assert worker.wait(20) == 0
    assert (spool.state(job), told(spool, job)) == ("queued", ["added", "claimed", "interrupted"])


# --- on a device without room, or read-only ---------------------------------------------------------------


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


def fill_up(spool):
    """No room for anything that is recorded; the file that takes it is given back."""
    change(spool, "PRAGMA wal_checkpoint(TRUNCATE)")  # whatever is recorded then needs new room for the log
    filler = spool.db.parent / "filler"
    fill(filler)
    return filler


def says_full(spool):
    return len(lines_of(spool, "the disk is full"))


# A worker that says when it has looked whether a command failed for want of room.
LOOKS = """
from spoolctl.work.room import Room
over = Room.over
def looked(self, one):
    over(self, one)
    open(f"looked-{one.job_id}", "w").close()
Room.over = looked
from spoolctl.__main__ import main
main()
"""

# A worker to which it is two hours later as soon as there is the file `later`.
LATER = """
import os
from spoolctl import clock
real = clock.now
clock.now = lambda: real() + 7200 * os.path.exists("later")
from spoolctl.__main__ import main
main()
"""


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


def test_a_job_that_fills_the_disk_ends_as_disk_full_and_the_worker_lives(spool, device):
    slowly = spool.add("--max-retries", "0", "-c", "while :; do head -c 8000 /dev/zero; sleep 0.005; done")
    worker = scripted(spool, LOOKS, "work", "--poll-interval", "0.1", "--grace", "0.5")
    out = spool.output / str(slowly) / "1" / "stdout"
    # With room left for the record it is recorded; if not, once there is room again.
    wait_until(lambda: out.exists() and out.stat().st_size > 300_000, 30)
    wait_until(lambda: not alive_of(spool, slowly), 30, "the end of the writer")
    assert out.stat().st_size > 300_000  # its files stay
    out.write_bytes(b"")
    spool.wait_for(slowly, "dead")
    assert ended(last(spool, slowly)) == ("failed", "disk_full", "disk full")

    at_once = spool.add("--max-retries", "0", "-c", "cat /dev/zero")
    out = spool.output / str(at_once) / "1" / "stdout"
    wait_until(lambda: out.exists() and out.stat().st_size > 300_000, 30)
    wait_until((spool.path / f"looked-{at_once}").exists, 30, "the end of the writer")
    assert not alive_of(spool, at_once)
    with open(out, "r+b") as file:
        file.truncate(0)
    spool.wait_for(at_once, "dead")
    assert ended(last(spool, at_once)) == ("failed", "disk_full", "disk full")
    after = spool.add("--", "echo", "goes on")
    spool.wait_for(after, "done")
    assert worker.poll() is None


def alive_of(spool, job_id):
    """Whether a process of the job's attempts runs."""
    mark = f"SPOOLCTL_JOB_ID={job_id}".encode()
    for pid, _ in processes_of(spool.path, spool.db):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    return True
        except OSError:
            continue
    return False


def test_a_worker_that_could_not_claim_for_want_of_room_claims_when_there_is_some(spool, device):
    worker = scripted(spool, TALKS + LATER, "work", "--poll-interval", "0.1")
    wait_until(lambda: spool.json("status")["workers"])
    job = spool.add("--after", "1h", "--", "echo", "ran")
    filler = fill_up(spool)
    (spool.path / "later").touch()
    wait_until(lambda: says_full(spool), 20)
    time.sleep(1.2)  # some more tries
    assert says_full(spool) == 1
    assert told(spool, job) == ["added"]
    filler.unlink()
    spool.wait_for(job, "done")
    assert worker.poll() is None


def test_a_result_waits_for_room_and_the_job_in_hand_is_not_lost(spool, device):
    job = spool.add("-c", GO)
    worker = held(spool, "--poll-interval", "0.1")
    pid = started(spool, job)
    filler = fill_up(spool)
    (spool.path / "go").touch()
    wait_until(lambda: not alive(pid), 20)  # a full disk is no reason to end a command that is over
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: says_full(spool), 20)
    assert (alive(pid), spool.state(job)) == (False, "running")
    filler.unlink()
    spool.wait_for(job, "done")
    assert told(spool, job) == ["added", "claimed", "succeeded"]
    assert worker.poll() is None


def test_told_twice_on_a_disk_that_stays_full_it_leaves_the_result_to_the_next(spool, device):
    job = spool.add("--max-crashes", "1", "--backoff-base", "0", "-c", f"echo run >>log; {GO}")
    worker = talking(spool, "--poll-interval", "0.1")
    pid = started(spool, job)
    filler = fill_up(spool)
    (spool.path / "go").touch()
    wait_until(lambda: not alive(pid))
    wait_until(lambda: says_full(spool), 20)
    tell(worker, signal.SIGTERM, signal.SIGINT)
    assert worker.wait(20) == 0
    filler.unlink()
    assert spool.state(job) == "running"
    assert spool.work(check=0).data["succeeded"] == 1
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert log_of(spool) == ["run", "run"]  # at least once, and the ledger says why
