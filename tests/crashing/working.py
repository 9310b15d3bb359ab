"""Workers that run, fail, reap and make checkpoints."""

from __future__ import annotations

from support import wait_until

from .adding import SMALL
from .case import Scenario, alone

FOREVER = "[ $SPOOLCTL_ATTEMPT -gt 1 ] || { echo up; exec sleep 300; }"


def told(case, job_id):
    return [
        event for (event,) in case.rows("SELECT event FROM job_events WHERE job_id = ? ORDER BY id", job_id)
    ]


class WorkOnce(Scenario):
    """work --once of a job that succeeds."""

    words = ("work", "--once")
    steady = False
    script = ""

    def arrange(self, case):
        self.job = case.add("--priority", "1", "-c", alone(self.script))
        self.other = case.add("-c", alone())

    def check(self, case):
        self.recorded(case)
        if case.answer is not None:
            assert (case.answer["job_id"], case.answer["result"]) == (self.job, "succeeded")
            assert case.states()[self.job] == "done"
        assert case.log(self.other) == []

    def recorded(self, case):
        (case.ended,) = case.rows(
            "SELECT count(*) FROM attempts WHERE job_id = ? AND state <> 'running'", self.job
        )[0]

    def settle(self, case):
        assert set(case.states().values()) == {"done"}
        assert case.log(self.other) == ["start"]
        # It ran once more when its worker died before the record, and only then.
        events = told(case, self.job)
        assert events == ["added", *["claimed", "reaped"] * events.count("reaped"), "claimed", "succeeded"]
        assert events.count("reaped") <= case.killed
        if case.ended:
            assert events == ["added", "claimed", "succeeded"]
        self.outputs(case)

    def outputs(self, case):
        number = case.rows("SELECT attempt_no FROM jobs WHERE id = ?", self.job)[0][0]
        assert case.call("output", str(self.job)).data["streams"]["stdout"]["preview"] == "out\n"
        assert len(case.log(self.job)) in (1, number)


class WorkFailure(WorkOnce):
    """work --once of a job that leaves a process, fails, and goes to backoff."""

    script = "[ $SPOOLCTL_ATTEMPT -gt 1 ] || { sleep 300 & exit 3; }"

    def check(self, case):
        self.recorded(case)
        if case.answer is not None:
            assert (case.answer["job_id"], case.answer["result"]) == (self.job, "failed")
        if case.ended:
            last = case.rows("SELECT state, last_error, attempts, crashes FROM jobs WHERE id = ?", self.job)
            assert last == [("queued", "exit 3", 1, 0)]
        assert case.log(self.other) == []

    def settle(self, case):
        assert set(case.states().values()) == {"done"}
        events = told(case, self.job)
        first = "failed" if case.ended or not case.killed or "failed" in events else "reaped"
        assert events == ["added", "claimed", first, "claimed", "succeeded"]
        assert case.log(self.other) == ["start"]
        self.outputs(case)


class WorkReaps(Scenario):
    """work --drain that ends the tree of a dead worker's job before it runs that again."""

    words = ("work", "--drain")
    steady = False

    def arrange(self, case):
        self.job = case.add("--priority", "1", "-c", alone(FOREVER))
        self.other = case.add("-c", alone())

    def ready(self, case):
        case.hooked("written down", "work", "--once")
        wait_until(lambda: case.log(self.job) == ["start"], 20)

    def check(self, case):
        if case.answer is not None:
            assert case.answer["drained"] is True
            assert set(case.states().values()) == {"done"}

    def settle(self, case):
        assert set(case.states().values()) == {"done"}
        events = told(case, self.job)
        crashes = events.count("reaped")
        assert events == ["added", *["claimed", "reaped"] * crashes, "claimed", "succeeded"]
        assert 1 <= crashes <= 1 + case.killed
        others = told(case, self.other).count("reaped")
        assert crashes - 1 + others <= case.killed  # it held one at a time
        assert len(case.log(self.other)) <= 1 + others


class WorkCheckpoint(Scenario):
    """work --drain that makes a guarded checkpoint after each commit."""

    words = ("work", "--drain")
    steady = False
    prelude = SMALL + "from spoolctl.work import turn\nturn.CHECK_EVERY = 1\n"
    points = ("checkpoint: made",)

    def arrange(self, case):
        case.add("-c", alone())

    def settle(self, case):
        assert set(case.states().values()) == {"done"}
        reaped = case.rows("SELECT count(*) FROM job_events WHERE event = 'reaped'")[0][0]
        assert reaped <= case.killed
