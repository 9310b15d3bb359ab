"""A step of the wall clock by an hour, either way: nobody is reaped or timed out for it, no time is
negative, and nothing waits longer than the step (QUALITY, Reliability: clocks).
"""

from __future__ import annotations

import re
import signal
import time

import pytest
from looking import told
from support import finish, wait_until
from workers import GO, scripted

# The tool with a wall clock that is off by what stands in a file: every process of a test sees one step.
STEPPED = """
import sys
from spoolctl import clock
real, path = clock.now, sys.argv.pop(1)
def now():
    with open(path) as file:
        return round(real() + float(file.read() or 0), 3)
clock.now = now
from spoolctl.__main__ import main
main()
"""


class Stepped:
    """Calls whose clock is off by `step` seconds."""

    def __init__(self, spool):
        self.spool = spool
        self.file = spool.path / "clock"
        self.step(0)

    def step(self, seconds):
        new = self.spool.path / "clock.new"
        new.write_text(str(seconds))
        new.rename(self.file)

    def start(self, *words):
        return scripted(self.spool, STEPPED, str(self.file), *words)

    def text(self, *words):
        out, err = self.start(*words).communicate(timeout=60)
        assert b"Traceback" not in err
        return out.decode()

    def json(self, *words):
        words = (words[0], "--json", *words[1:])
        return finish(self.start(*words), words=words).data

    def add(self, *words):
        return self.json("add", *words)["job_id"]

    def show(self, job_id):
        return self.json("show", str(job_id))

    def state(self, job_id):
        return self.show(job_id)["job"]["state"]


@pytest.fixture
def stepped(spool):
    return Stepped(spool)


@pytest.mark.parametrize("seconds", [3600, -3600], ids=["forward", "back"])
def test_a_step_neither_reaps_nor_times_out_and_no_time_is_negative(spool, stepped, seconds):
    job = stepped.add("--timeout", "60", "-c", GO)
    short = stepped.add("--timeout", "4", "--max-retries", "0", "-c", "sleep 300")
    worker = stepped.start("work", "--json", "-j", "2", "--idle-timeout", "600", "--poll-interval", "0.2")
    wait_until(lambda: all("claimed" in told(stepped, one) for one in (job, short)))
    other = stepped.start("work", "--json", "--queue", "other", "--idle-timeout", "600")
    wait_until(lambda: len(stepped.json("status")["workers"]) == 2)
    began = time.monotonic()
    stepped.step(seconds)
    time.sleep(2.5)  # two looks for dead owners, and a heartbeat that seems an hour old or young
    status = stepped.json("status")
    assert (status["orphaned"], {one["alive"] for one in status["workers"]}) == (0, {True})
    assert stepped.state(job) == "running"
    wait_until(lambda: stepped.state(short) == "dead", 30, "the timeout, by the clock that nobody steps")
    assert time.monotonic() - began < 15
    (spool.path / "go").touch()
    wait_until(lambda: stepped.state(job) == "done")
    assert told(stepped, job) == ["added", "claimed", "succeeded"]
    assert told(stepped, short) == ["added", "claimed", "timed_out", "dead"]
    for one in (job, short):
        assert stepped.json("feedback", str(one))["duration_seconds"] >= 0
    for words in (["status"], ["list"], ["events"], ["show", str(job)], ["feedback", str(job), str(short)]):
        assert not re.search(r" -\d", stepped.text(*words)), words
    for process in (worker, other):
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("seconds", [3600, -3600], ids=["forward", "back"])
def test_after_a_step_new_jobs_run_at_once_and_old_delays_are_off_by_no_more_than_it(spool, stepped, seconds):
    delayed = stepped.add("--after", "50m", "--", "true")
    failing = stepped.add("--max-retries", "1", "--backoff-base", "30s", "--", "false")
    worker = stepped.start("work", "--json", "--poll-interval", "0.2")
    wait_until(lambda: told(stepped, failing) == ["added", "claimed", "failed"])
    stepped.step(seconds)
    fresh = stepped.add("--", "true")
    wait_until(lambda: stepped.state(fresh) == "done", 10, "a job of the new time")
    at = stepped.show(failing)["job"]["next_run_at"]
    now = time.time() + seconds
    if seconds > 0:  # over already by the new time
        wait_until(lambda: [stepped.state(one) for one in (delayed, failing)] == ["done", "dead"])
    else:
        assert 0 < at - now <= -seconds + 30
        assert told(stepped, failing) == ["added", "claimed", "failed"]
        stepped.json("retry", str(failing), "--now")  # whoever does not want to wait
        wait_until(lambda: stepped.state(failing) == "dead")
        stepped.step(0)
        assert stepped.state(delayed) == "queued"
    assert worker.poll() is None


def test_a_dead_worker_is_noticed_although_the_clock_was_set_back(spool, stepped):
    job = stepped.add("--backoff-base", "0.1", "-c", f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {GO}")
    worker = stepped.start("work", "--json", "--grace", "0.5")
    wait_until(lambda: stepped.state(job) == "running" and stepped.show(job)["attempts"][0]["pid"])
    stepped.step(-3600)
    other = stepped.start("work", "--json", "--poll-interval", "0.2")
    wait_until(lambda: len(stepped.json("status")["workers"]) == 2)
    worker.kill()
    wait_until(lambda: stepped.state(job) == "done", 20)
    assert told(stepped, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert other.poll() is None
