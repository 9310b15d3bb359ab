"""A queue in memory that does what SPEC 3, 4 and 6 say and nothing else: what the store is compared to.

Written from the SPEC, in its words. It has no transactions, no indexes and no clock of its own.
"""

from __future__ import annotations

from typing import Any

FRESH: dict[str, Any] = {
    "last_exit_code": None, "last_signal": None, "last_error": None, "last_failure_reason": None,
}  # fmt: skip
ACTIVE = ("queued", "running")
TERMINAL = ("done", "dead", "canceled")


class Job:
    def __init__(self, id: int, now: float, asked: dict[str, Any]) -> None:
        self.id = id
        self.asked = asked  # lane, priority, key, command, max_retries, max_crashes, backoff
        self.state = "queued"
        self.attempts = self.crashes = self.attempt_no = 0
        self.next_run_at = round(now + asked["delay"], 3)
        self.finished_at: float | None = None
        self.last = dict(FRESH)
        self.owner: int | None = None
        self.request: str | None = None
        self.said: str | None = None  # what the event of the request will say
        self.seen = False
        self.runs: dict[int, dict[str, Any]] = {}  # attempt number -> the attempt

    @property
    def lane(self) -> str:
        return self.asked["lane"]

    @property
    def key(self) -> str | None:
        return self.asked["key"]

    def execution(self) -> dict[str, Any]:
        """What two jobs of one key are compared in."""
        return {name: value for name, value in self.asked.items() if name not in ("lane", "key", "delay")}


class Model:
    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[int, Job] = {}
        self.added = 0
        self.events: list[tuple[int, float, str, str | None, str | None]] = []

    def tell(self, job: Job, event: str, worker: str | None = None, detail: str | None = None) -> None:
        self.events.append((job.id, self.now, event, worker, detail))

    def running(self, job_id: int, number: int) -> Job | None:
        """The job whose running attempt this is, None when it is not: the guard of every write about it."""
        job = self.jobs.get(job_id)
        return job if job and job.state == "running" and job.attempt_no == number else None

    def of_lane(self, lane: str, *states: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.lane == lane and job.state in states]

    def holder(self, lane: str, key: str | None, but: int = 0) -> Job | None:
        """The active job that has this key in this lane."""
        if key is None:
            return None
        found = [job for job in self.of_lane(lane, *ACTIVE) if job.key == key and job.id != but]
        return found[0] if found else None

    # --- what is asked for ---

    def add(self, asked: dict[str, Any], kept: bool) -> tuple[str, int]:
        """('added', id), ('deduplicated', id) or ('conflict', id)."""
        there = self.holder(asked["lane"], asked["key"])
        if there is None and kept and asked["key"] is not None:
            same = [job for job in self.jobs.values() if (job.lane, job.key) == (asked["lane"], asked["key"])]
            there = max(same, key=lambda job: job.id, default=None)
        if there is not None:
            differs = not kept and there.execution() != Job(0, 0, asked).execution()
            return ("conflict" if differs else "deduplicated"), there.id
        self.added += 1  # ids are never reused
        job = self.jobs[self.added] = Job(self.added, self.now, asked)
        self.tell(job, "added")
        return "added", job.id

    def cancel(self, job: Job) -> bool:
        """Of a queued job, at once."""
        if job.state != "queued":
            return False
        job.state, job.finished_at = "canceled", self.now
        self.tell(job, "canceled")
        return True

    def retry(self, job: Job, now_too: bool) -> str:
        """'queued', or why not."""
        if job.state in ("dead", "canceled"):
            if self.holder(job.lane, job.key, but=job.id):
                return "IDEMPOTENCY_CONFLICT"
            job.state, job.next_run_at, job.finished_at = "queued", self.now, None
            job.attempts = job.crashes = 0
            job.last = dict(FRESH)
        elif job.state == "queued" and now_too and job.next_run_at > self.now:
            job.next_run_at = self.now
        else:
            return "running" if job.state == "running" else "CONFLICT"
        self.tell(job, "retried")
        return "queued"

    def ask(self, job_id: int, number: int, request: str, detail: str) -> bool:
        """A cancel replaces a requeue; else the request that stands stays."""
        job = self.running(job_id, number)
        if job is None or job.request == request or job.request == "cancel":
            return False
        job.request, job.said, job.seen = request, detail, False
        return True

    def stamp(self, job_id: int, number: int) -> None:
        job = self.running(job_id, number)
        if job and job.request:
            job.seen = True

    def take_back(self, job_id: int, number: int, request: str) -> bool:
        """Only what the owner has not seen, of an attempt without a recorded child."""
        job = self.running(job_id, number)
        if job is None or job.request != request or job.seen or job.runs[number]["pid"]:
            return False
        job.request = job.said = None
        return True

    def prune(self, states: list[str], before: float, lane: str | None, keep: int) -> list[int]:
        """Jobs of these states that ended up to `before`, but for the newest `keep` of them all."""
        fits = [job.id for job in self.jobs.values() if job.state in states and lane in (None, job.lane)]
        spared = sorted(fits)[-keep:] if keep else []
        gone = [id for id in fits if id not in spared and (self.jobs[id].finished_at or 0) <= before]
        for id in gone:
            del self.jobs[id]
        self.events = [event for event in self.events if event[0] not in gone]
        return sorted(gone)

    # --- what workers do ---

    def claim(self, lane: str, owner: int, label: str, most: int, slots: int | None) -> list[tuple[int, int]]:
        """(id, attempt number) of the jobs taken, in order."""
        due = [job for job in self.of_lane(lane, "queued") if job.next_run_at <= self.now]
        due.sort(key=lambda job: (-job.asked["priority"], job.next_run_at, job.id))
        if slots is not None:
            most = min(most, slots - len(self.of_lane(lane, "running")))
        taken = due[: max(0, most)]
        for job in taken:
            job.state, job.owner = "running", owner
            job.attempt_no += 1
            job.runs[job.attempt_no] = {
                "state": "running", "worker": owner, "pid": None, "started_at": self.now, "finished_at": None,
                "exit_code": None, "signal": None, "error": None, "reason": None, "stuck": None,
            }  # fmt: skip
            self.tell(job, "claimed", label)
        return [(job.id, job.attempt_no) for job in taken]

    def record_child(self, job_id: int, number: int, pid: int) -> bool:
        job = self.running(job_id, number)
        if job is None:
            return False
        job.runs[number]["pid"] = pid
        return True

    def mark_stuck(self, job_id: int, number: int, pids: list[int], why: str, worker: str) -> None:
        job = self.running(job_id, number)
        if job and job.runs[number]["stuck"] is None:  # told once
            listed = ",".join(map(str, pids))
            job.runs[number]["stuck"] = (self.now, listed, why)
            self.tell(job, "stuck", worker, f"pids {listed}: {why}")

    def settle(self, job_id: int, number: int, end: dict[str, Any], spends: str | None) -> str | None:
        """The job's next state, None for a result that comes too late. `end` is the attempt's outcome, its
        `ended_at` None for now; it spends nothing, a `failure` or a `crash`."""
        job = self.running(job_id, number)
        if job is None:
            return None
        at = self.now if end["ended_at"] is None else end["ended_at"]
        job.runs[number].update(
            state=end["state"], finished_at=at, exit_code=end["exit_code"], signal=end["signal"],
            error=end["error"], reason=end["reason"], stuck=None,
        )  # fmt: skip
        job.last = {
            "last_exit_code": end["exit_code"], "last_signal": end["signal"], "last_error": end["error"],
            "last_failure_reason": end["reason"],
        }  # fmt: skip
        job.attempts += spends in ("failure", "crash")
        job.crashes += spends == "crash"
        if end["event"]:
            self.tell(job, end["event"], end["worker_id"], end["detail"])
        request, said = job.request, job.said
        job.owner = job.request = job.said = None
        job.seen = False
        if request == "cancel":
            job.state, job.finished_at = "canceled", at
            self.tell(job, "canceled", end["worker_id"], said)
        elif request == "requeue":
            job.state, job.next_run_at, job.attempts, job.crashes = "queued", self.now, 0, 0
            job.last = dict(FRESH)
            self.tell(job, "retried", end["worker_id"], said)
        elif end["state"] == "succeeded":
            job.state, job.finished_at = "done", at
        elif spends is None:
            job.state, job.next_run_at = "queued", self.now
        elif self._again(job, spends):
            job.state, job.next_run_at = "queued", round(self.now + self.backoff(job), 3)
        else:
            job.state, job.finished_at = "dead", at
            self.tell(job, "dead", end["worker_id"])
        return job.state

    def _again(self, job: Job, spent: str) -> bool:
        if spent == "failure":
            return job.attempts - job.crashes <= job.asked["max_retries"]
        return job.asked["max_crashes"] is None or job.crashes <= job.asked["max_crashes"]

    def backoff(self, job: Job) -> float:
        """Seconds before the next try, after the n-th unsuccessful execution, without jitter."""
        base, factor, most, _ = job.asked["backoff"]
        return min(most, base * factor ** (job.attempts - 1))
