"""Calls that cancel, retry and delete jobs."""

from __future__ import annotations

import os

from support import processes_of

from .case import Scenario, alone
from .working import WorkReaps, told


class CancelQueued(Scenario):
    """cancel of a queued job."""

    def arrange(self, case):
        self.job = case.add("-c", alone())
        self.words = ("cancel", str(self.job))

    def check(self, case):
        state = case.states()[self.job]
        assert state in ("queued", "canceled")
        assert state == "canceled" or case.answer is None
        case.was = state

    def settle(self, case):
        if case.was == "canceled":
            assert (told(case, self.job), case.log(self.job)) == (["added", "canceled"], [])
        else:
            assert (told(case, self.job), case.log(self.job)) == (
                ["added", "claimed", "succeeded"],
                ["start"],
            )


class Requests(WorkReaps):
    """A request to a job whose worker is dead: the caller ends its tree. `after`: the state it asks for."""

    verb: str
    flags: tuple[str, ...]
    request: str
    after: str

    def arrange(self, case):
        super().arrange(case)
        self.words = (self.verb, str(self.job), *self.flags)

    def check(self, case):
        case.was, case.asked = case.rows("SELECT state, request FROM jobs WHERE id = ?", self.job)[0]
        assert (case.was, case.asked) in (("running", None), ("running", self.request), (self.after, None))
        if case.was == self.after:
            assert processes_of(case.folder, case.db) == []
        if case.answer is not None:
            assert (case.was, case.answer["state"]) == (self.after, self.after)


class CancelRunning(Requests):
    """cancel --running --yes."""

    verb, flags, request, after = "cancel", ("--running", "--yes"), "cancel", "canceled"

    def settle(self, case):
        events = told(case, self.job)
        if (case.was, case.asked) == ("running", None):
            assert events == ["added", "claimed", "reaped", "claimed", "succeeded"]
        else:
            assert events == ["added", "claimed", "reaped", "canceled"]
            assert case.log(self.job) == ["start"]
        assert told(case, self.other) == ["added", "claimed", "succeeded"]


class RetryDead(Scenario):
    """retry of a dead job."""

    def arrange(self, case):
        script = alone("[ $SPOOLCTL_ATTEMPT -gt 1 ] || exit 1")
        self.job = case.add("--max-retries", "0", "-c", script)
        case.process("work", "--drain")
        self.words = ("retry", str(self.job))

    def check(self, case):
        case.was, attempts = case.rows("SELECT state, attempts FROM jobs WHERE id = ?", self.job)[0]
        assert (case.was, attempts) in (("dead", 1), ("queued", 0))
        assert case.was == "queued" or case.answer is None

    def settle(self, case):
        first = ["added", "claimed", "failed", "dead"]
        if case.was == "dead":
            assert (told(case, self.job), case.log(self.job)) == (first, ["start"])
        else:
            assert told(case, self.job) == [*first, "retried", "claimed", "succeeded"]
            assert case.log(self.job) == ["start", "start"]


class RetryForce(Requests):
    """retry --force: then it is queued again."""

    verb, flags, request, after = "retry", ("--force",), "requeue", "queued"

    def settle(self, case):
        events = told(case, self.job)
        plain = (case.was, case.asked) == ("running", None)
        asked = [] if plain else ["retried"]
        assert events == ["added", "claimed", "reaped", *asked, "claimed", "succeeded"]
        assert case.log(self.job) == ["start", "start"]
        assert case.rows("SELECT crashes FROM jobs WHERE id = ?", self.job) == [(1 if plain else 0,)]


class Prune(Scenario):
    """prune --yes: rows first, then the output they stood for."""

    words = ("prune", "--older-than", "0", "--yes")

    def arrange(self, case):
        self.done = [case.add("--tag", "a=b", "-c", alone()) for _ in range(6)]
        self.dead = case.add("--max-retries", "0", "-c", alone("exit 1"))
        case.process("work", "--drain")
        self.queued = case.add("-c", alone())

    def whole(self, case, job_id):
        streams = case.call("output", str(job_id)).data["streams"]
        return streams["stdout"]["preview"] == "out\n"

    def check(self, case):
        there = set(case.states())
        kept = {self.dead, self.queued}
        assert there in (kept, kept | set(self.done))  # one batch, one transaction
        for job_id in there - {self.queued}:
            assert self.whole(case, job_id)
        if case.answer is not None:
            assert (there, case.answer["deleted_jobs"]) == (kept, len(self.done))
        else:
            again = case.call(*self.words).data
            assert again["deleted_jobs"] == len(there) - 2
        output = case.db.parent / "output"
        assert os.listdir(output) == [str(self.dead)]
        assert case.rows("SELECT count(*) FROM pruned") == [(0,)]

    def settle(self, case):
        assert case.states() == {self.dead: "dead", self.queued: "done"}
        assert self.whole(case, self.dead)
