"""QUALITY, crash at every step: SIGKILL of each verb that changes something, at every write-type system
call (strace) and at every named point, and what the next calls find.

Ordinarily a seeded share of what is much alike is tried, with -m soak everything. How many points that
were, verb by verb: pytest tests/crash -rP | grep "crash points".
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from crashing.adding import Add, AddCheckpoint, AddFrom, FirstAdd, Migration
from crashing.changing import CancelQueued, CancelRunning, Prune, RetryDead, RetryForce
from crashing.sweep import AFTER, BEFORE, KILLS, Point, Sweep, chosen, injecting, no_strace
from crashing.working import WorkCheckpoint, WorkFailure, WorkOnce, WorkReaps

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and flock(1)")

SCENARIOS = {
    "first add": FirstAdd,
    "add": Add,
    "add --from": AddFrom,
    "add --from, checkpoint": AddCheckpoint,
    "work --once": WorkOnce,
    "work --once, failure": WorkFailure,
    "work --drain, reaping": WorkReaps,
    "work --drain, checkpoint": WorkCheckpoint,
    "cancel": CancelQueued,
    "cancel --running": CancelRunning,
    "retry": RetryDead,
    "retry --force": RetryForce,
    "prune": Prune,
    "migration": Migration,
}
SEED = 20


@pytest.fixture
def sweep(in_memory, request, record_property):
    """Sweep the scenario's points, and tell how many that were."""
    made = Sweep(SCENARIOS[request.param](), in_memory)

    def tried(what, points):
        made.all(points)
        record_property(f"crash points, {what}", made.killed)
        print(f"crash points: {request.param}: {made.killed} {what}, of {len(points)} tried")

    made.tried = tried
    return made


def judged(sweep, points):
    assert not sweep.failures, f"{len(sweep.failures)} failed:\n" + "\n".join(sweep.failures[:12])
    # How often a process looks, while something has to end, depends on the moment.
    assert sweep.killed >= len(points) * (1 if sweep.scenario.steady else 0.6)


def each():
    return pytest.mark.parametrize("sweep", list(SCENARIOS), indirect=True)


with_strace = pytest.mark.skipif(bool(no_strace()), reason=no_strace() or "-")


@with_strace
@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_process_is_killed_before_its_system_call_is_made_or_after_that(tmp_path, how):
    name = "mkdir" if hasattr(os, "uname") and os.uname().machine == "x86_64" else "mkdirat"
    line = injecting(Point(name, 2, how))
    script = "import os\nfor name in 'abc': os.mkdir(name)"
    done = subprocess.run([*line, sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert done.returncode == -KILLS[how]
    assert sorted(os.listdir(tmp_path)) == (["a"] if how == BEFORE else ["a", "b"])


@pytest.mark.timeout(600)
@each()
def test_a_call_killed_at_any_named_point_leaves_what_the_next_one_can_go_on_with(sweep):
    points = sweep.hooks()
    assert set(sweep.scenario.points) <= {point.name for point in points}
    sweep.tried("at hooks", points)
    judged(sweep, points)


@pytest.mark.timeout(600)
@with_strace
@each()
def test_a_call_killed_at_a_system_call_leaves_what_the_next_one_can_go_on_with(sweep):
    before = chosen(sweep.syscalls(BEFORE), 48, SEED)
    sweep.tried("before system calls", before)
    judged(sweep, before)
    behind = [one for one in chosen(sweep.syscalls(AFTER), 24, SEED) if one.name not in ("pwrite64", "fcntl")]
    sweep.tried("after system calls", behind)
    judged(sweep, behind)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@with_strace
@each()
def test_a_call_killed_at_every_system_call_leaves_what_the_next_one_can_go_on_with(sweep):
    for how in (BEFORE, AFTER):
        points = sweep.syscalls(how)
        sweep.tried(f"{how} system calls", points)
        judged(sweep, points)
