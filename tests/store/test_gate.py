"""The queue of writers: nobody is refused while others come to an end, and a worker, which may not block in
the queue, gets its turn although that never runs empty.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest
from support import clean_env, finish, wait_until
from workers import scripted

from spoolctl import clock, paths
from spoolctl.errors import SpoolctlError
from spoolctl.store.gate import Gate

WRITERS, JOBS = 6, 2

# Each commit has the gate for as long as one on a slow disk; the next follows at once.
WRITES = """
import sys, select, time
from spoolctl import paths
from spoolctl.store.open import open_writer
db = open_writer(paths.Spool(sys.argv[1], "flag"))
db.gate.patience = 60  # of a busy machine: who is woken may be late, and is overtaken then
made = 0
while not select.select([0], [], [], 0.005)[0]:  # the least that lies between two calls
    with db.write():
        time.sleep(0.03)
    made += 1
    if made == 1:
        print("at it", flush=True)
print(made)
"""

# A call that stands back for whoever makes wishes as long as these last.
PATIENT = """
from spoolctl.store import gate
gate.COURTESY = gate.WISH = 3600
from spoolctl.__main__ import main
main()
"""


@pytest.fixture
def place(tmp_path):
    return paths.Spool(os.path.realpath(tmp_path) + "/queue.db", "flag")


@contextmanager
def held(spool):
    """Somebody else has the gate."""
    with closing(Gate(spool)) as other:
        other.enter()
        yield
        other.leave()


def wished(spool):
    return os.stat(spool.gate).st_atime == 0 < os.stat(spool.gate).st_mtime


def tries(spool):
    return Gate(spool, 0.01, blocking=False)


def test_who_may_not_block_wishes_after_long_failure_and_takes_it_back(place):
    with closing(tries(place)) as gate:
        with held(place):
            began = clock.monotonic()
            while not wished(place):
                with pytest.raises(SpoolctlError, match="write lock was not free"):
                    gate.enter()
                assert clock.monotonic() < began + 30
            assert clock.monotonic() > began + 0.4
        gate.enter()
        assert not wished(place)


def test_who_comes_new_stands_back_for_a_wish(spool):
    spool.add()
    place = paths.Spool(str(spool.db), "flag")
    order: list[str] = []

    def work():
        with closing(tries(place)) as gate:
            while not order:
                try:
                    gate.enter()
                except SpoolctlError:
                    continue
                time.sleep(0.3)  # room for the call, had it been first
                order.append("worker" if call.poll() is None else "call")
                gate.leave()

    worker = threading.Thread(target=work)
    with held(place):
        worker.start()
        wait_until(lambda: wished(place))
        call = scripted(spool, PATIENT, "add", "--json", "--", "true")
        time.sleep(0.5)  # it comes to the gate, and if it does not yet, nothing is shown wrong
    worker.join(60)
    assert order == ["worker"]
    finish(call, words=("add", "--json", "--", "true"), check=0)


def test_no_wish_holds_anybody_up_for_ever(spool, monkeypatch):
    """Neither one that is always made anew, nor one from the future, nor the age of a new file."""
    spool.add()
    place = paths.Spool(str(spool.db), "flag")
    naps: list[float] = []
    monkeypatch.setattr(clock, "sleep", lambda seconds: naps.append(seconds) or time.sleep(seconds))
    spool.add("--db", "new.db", "--", "true")
    assert naps == []
    for at in (time.time() + 3600, time.time() - 3600, 0):
        os.utime(place.gate, (0, at))
        spool.add()
    assert naps == []
    monkeypatch.setattr(clock, "now", lambda: 1_000_000.0)
    os.utime(place.gate, (0, 1_000_000.0))  # as if it were renewed all the time
    spool.add()
    assert naps


def test_standing_back_is_part_of_a_calls_patience(place, monkeypatch):
    monkeypatch.setattr("spoolctl.store.gate.WISH", 3600)
    monkeypatch.setattr("spoolctl.store.gate.COURTESY", 0.5)
    left: list[float] = []
    monkeypatch.setattr(
        "spoolctl.store.gate._flock_blocking", lambda fd, patience: left.append(patience) or True
    )
    with closing(Gate(place, 5.0)) as gate:
        gate.enter()  # which makes the file
        os.utime(place.gate, (0, time.time()))
        gate.enter()
    assert left[0] <= 5.0
    assert 0 < left[1] <= 4.5


def test_calls_and_a_worker_all_get_on_where_the_gate_is_never_free(spool):
    jobs = [spool.add() for _ in range(JOBS)]
    line = [sys.executable, "-c", WRITES, str(spool.db)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writers = [subprocess.Popen(line, env=clean_env(), **pipes) for _ in range(WRITERS)]
    try:
        for one in writers:
            assert one.stdout.readline() == b"at it\n"
        spool.start("work")
        for job in jobs:
            spool.wait_for(job, "done", seconds=60)
        spool.add()
        numbers = [int(one.communicate(b"\n", timeout=60)[0]) for one in writers]
    finally:
        for one in writers:
            one.kill()
            one.wait()
    assert all(made > 1 for made in numbers), numbers
