"""SPEC 6: a worker is ALIVE, DEAD or UNKNOWN by two witnesses, its lock and its process. Real workers, real
processes in every state; only what a row says of them is changed by hand.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from looking import log_of
from support import wait_until
from workers import GO, state_of, stop

from spoolctl import paths
from spoolctl.store import open as store_open
from spoolctl.store import workers
from spoolctl.work import identity, proc

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

ALIVE, DEAD, UNKNOWN = identity.ALIVE, identity.DEAD, identity.UNKNOWN


def place(spool):
    return paths.Spool(str(spool.db), "flag")


def row_of(spool, label):
    with closing(store_open.open_reader(place(spool))) as db:
        return next((row for row in workers.all_rows(db) if row["label"] == label), None)


def judged(spool, row, **changes):
    return identity.liveness(place(spool), {**row, **changes})


def lock_of(spool, row):
    return spool.db.parent / "workers" / f"{row['instance']}.lock"


@pytest.fixture
def worker(spool):
    """(the process, its row) of a worker with nothing to do."""
    process = spool.start("work", "--json", "--worker-id", "one")
    return process, wait_until(lambda: row_of(spool, "one"), 20)


# --- the process ------------------------------------------------------------------------------------------

# The main thread ends, another goes on: the kernel shows a zombie with more than one thread.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def process():
    """Start something; its pid and its start time."""
    begun = []

    def start(program="import time; time.sleep(600)"):
        one = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        begun.append(one)
        return one, proc.stat(one.pid).start

    yield start
    for one in begun:
        one.kill()
        one.wait()


def test_a_process_lives_until_it_has_ended_with_all_its_threads(process):
    one, start = process()
    assert identity.process_witness(one.pid, start) == ALIVE
    stop(one)
    assert identity.process_witness(one.pid, start) == ALIVE
    one.kill()
    wait_until(lambda: state_of(one.pid) == "Z")  # nobody has waited for it
    assert identity.process_witness(one.pid, start) == DEAD
    one.wait()
    assert identity.process_witness(one.pid, start) == DEAD
    assert identity.process_witness(one.pid, None) == DEAD  # whatever it was, it is not there

    headless, start = process(HEADLESS)
    wait_until(lambda: state_of(headless.pid) == "Z")
    assert headless.poll() is None
    assert identity.process_witness(headless.pid, start) == ALIVE


def test_another_start_time_is_another_process_and_none_proves_nothing(process):
    one, start = process()
    assert identity.process_witness(one.pid, start - 1) == DEAD
    assert identity.process_witness(one.pid, start + 1) == DEAD
    assert identity.process_witness(one.pid, None) == UNKNOWN


# --- both witnesses ---------------------------------------------------------------------------------------


def test_a_worker_lives_as_long_as_one_witness_says_so(spool, worker, process):
    one, row = worker
    other, start = process()
    assert judged(spool, row) == ALIVE
    # Its lock is held: whatever is wrong with the rest, it lives.
    for changes in (
        {"pid_start": row["pid_start"] + 1},
        {"pid_start": None},
        {"pid_ns": None},
        {"pid": 2**22},
    ):
        assert judged(spool, row, **changes) == ALIVE, changes
    stop(one)
    assert judged(spool, row) == ALIVE
    one.send_signal(signal.SIGCONT)

    lock_of(spool, row).unlink()
    assert judged(spool, row) == ALIVE  # by its process
    assert judged(spool, row, pid_start=row["pid_start"] + 1) == DEAD  # case 8
    assert judged(spool, row, pid=other.pid) == DEAD
    assert judged(spool, row, pid=other.pid, pid_start=start) == ALIVE
    headless, start = process(HEADLESS)
    wait_until(lambda: state_of(headless.pid) == "Z")
    assert judged(spool, row, pid=headless.pid, pid_start=start) == ALIVE


def test_what_is_null_equals_nothing_and_another_boot_is_over(spool, worker, monkeypatch):
    one, row = worker
    assert judged(spool, row, boot_id=None) == UNKNOWN
    assert judged(spool, row, boot_id="00000000-0000-0000-0000-000000000001") == DEAD
    lock_of(spool, row).unlink()
    assert judged(spool, row, pid_start=None) == UNKNOWN
    assert judged(spool, row, pid_ns=None) == UNKNOWN
    assert judged(spool, row, pid_ns="pid:[1]") == UNKNOWN
    with monkeypatch.context() as patch:
        patch.setattr(proc, "pid_namespace", lambda: None)
        assert judged(spool, row, pid_ns=None) == UNKNOWN
        assert judged(spool, row) == UNKNOWN
    with monkeypatch.context() as patch:
        patch.setattr(proc, "boot_id", lambda: None)
        assert judged(spool, row, boot_id=None) == UNKNOWN
        assert judged(spool, row) == UNKNOWN
    one.kill()
    one.wait()
    for changes in ({"boot_id": None}, {"pid_ns": None}, {"pid_ns": "pid:[1]"}):
        assert judged(spool, row, **changes) == UNKNOWN, changes
    assert judged(spool, row) == DEAD


def test_a_lock_file_that_is_another_one_is_no_witness(spool, worker):
    one, row = worker
    lock = lock_of(spool, row)
    lock.rename(lock.with_suffix(".kept"))  # its number on disk must not be given to the next
    lock.touch()
    foreign = {"pid_ns": "pid:[1]"}
    assert (judged(spool, row), judged(spool, row, **foreign)) == (ALIVE, UNKNOWN)
    one.kill()
    one.wait()
    assert (judged(spool, row), judged(spool, row, **foreign)) == (DEAD, UNKNOWN)
    lock.unlink()
    lock.with_suffix(".kept").rename(lock)
    assert judged(spool, row, **foreign) == DEAD


def test_looking_takes_no_lock_from_anybody(spool, worker):
    one, row = worker
    one.kill()
    one.wait()
    with open(lock_of(spool, row), "rb") as looker:
        import fcntl

        fcntl.flock(looker, fcntl.LOCK_SH)  # somebody looks just now
        assert judged(spool, row, pid_ns="pid:[1]") == DEAD


def test_a_worker_whose_lock_file_was_removed_is_not_reaped(spool):
    job = spool.add("-c", f"echo run >>log; {GO}")
    worker = spool.start("work", "--json", "--worker-id", "one")
    spool.wait_for(job, "running")
    wait_until(lambda: log_of(spool), 20)
    lock_of(spool, row_of(spool, "one")).unlink()
    assert spool.work("--idle-timeout", "2.5", check=0).data == {"stopped": True, "executed": 0}
    assert spool.json("status")["workers"][0]["alive"] is True
    (spool.path / "go").touch()
    spool.wait_for(job, "done")
    assert log_of(spool) == ["run"]
    assert spool.stop(worker) == 0
    assert spool.json("status")["workers"] == []


LOOKER = """
import json, sys
from spoolctl.paths import Spool
from spoolctl.work import identity
print(identity.liveness(Spool(sys.argv[1], "flag"), json.loads(sys.argv[2])))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount /proc and be two users")
def test_where_proc_hides_others_a_live_worker_is_never_dead(spool, worker, person):
    one, row = worker
    look = [person.python, "-c", LOOKER, str(spool.db), json.dumps(row)]

    def seen_by_another_user(mount):
        line = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'{mount}; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
            "sh",
        ]
        done = subprocess.run(
            [*line, *look], cwd=person.path, env=person.env, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            pytest.skip(f"cannot mount and change the user: {done.stderr.strip()[-200:]}")
        return done.stdout.strip()

    hide = "mount -t proc -o hidepid=2 proc /proc"
    assert seen_by_another_user(":") == ALIVE  # its start time may be read, although its lock may not
    assert seen_by_another_user(hide) == UNKNOWN
    one.send_signal(signal.SIGSTOP)
    assert seen_by_another_user(hide) == UNKNOWN
    one.kill()
    one.wait()
    assert seen_by_another_user(hide) == DEAD  # there is no such process, hidden or not


def test_the_lock_of_a_starting_worker_is_not_taken_for_a_dead_ones_of_the_same_inode(spool):
    """An inode is given away again as soon as its file is gone."""
    spool.add()
    spool.work(check=0)
    place = paths.Spool(str(spool.db), "flag")
    starting = identity.WorkerLock(place)
    dead = {"instance": 4711, "pid": 1, "lock_dev": starting.dev, "lock_ino": starting.ino}
    assert identity.lock_witness(place, dead) is None
    dead["pid"] = os.getpid()  # that number too, given away again or of another namespace
    identity.remove_lock(place, 4711, dead)
    assert os.path.exists(starting.path)
    os.utime(starting.path, (1, 1))
    identity.remove_lock(place, 4711, dead)
    assert os.path.exists(starting.path)  # old by now, but held
    starting.release(remove=False)
    identity.remove_lock(place, 4711, dead)
    assert not os.path.exists(starting.path)
