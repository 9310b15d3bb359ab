"""SIGKILL of a busy worker at any instant, not only at its system calls."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
from crashing.case import MAIN, Case, alone
from crashing.sound import settled, sound
from support import clean_env

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and flock(1)")

JOBS = (
    (),
    ("sleep 0.05",),
    ("head -c 100000 /dev/zero",),
    ("sleep 300 & exit 0",),
    ("setsid sleep 300 & exit 0",),
    ("[ $SPOOLCTL_ATTEMPT -gt 2 ] || exit 1",),
    ("exec sleep 300", "--timeout", "0.2", "--max-retries", "0"),
    ("sleep 0.1 & wait", "--keep-children"),
)
KILLS = 8


def killed_and_finished(folder, seed):
    draw = random.Random(seed)
    folder.mkdir()
    case = Case(folder)
    jobs = [
        case.add("--max-crashes", "none", *flags, "-c", alone(*script[:1]))
        for script, flags in ((line[:1], line[1:]) for line in JOBS * 2)
    ]
    try:
        for _ in range(KILLS):
            worker = subprocess.Popen(
                [sys.executable, "-c", MAIN, "work", "--json", "--drain", "-j", "4", "--grace", "1"],
                cwd=folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            time.sleep(draw.uniform(0.03, 0.6))  # the instant itself is what is drawn
            worker.send_signal(signal.SIGKILL)
            worker.wait(20)
            sound(case)
        case.age()
        case.process("work", "--drain", "-j", "4", "--grace", "1")
        sound(case)
        settled(case)
        dead = {job for job, state in case.states().items() if state == "dead"}
        assert dead == {job for n, job in enumerate(jobs) if "--timeout" in JOBS[n % len(JOBS)]}
        reaped = case.rows("SELECT count(*) FROM job_events WHERE event = 'reaped'")[0][0]
        assert reaped <= 4 * KILLS
    except AssertionError as wrong:
        raise AssertionError(f"seed {seed}: {wrong}") from None
    finally:
        case.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_busy_worker_killed_at_any_instant_loses_nothing(in_memory, seed):
    killed_and_finished(in_memory / "queue", seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_busy_worker_killed_at_many_instants_loses_nothing(in_memory):
    for seed in range(100, 160):
        killed_and_finished(in_memory / f"queue-{seed}", seed)
