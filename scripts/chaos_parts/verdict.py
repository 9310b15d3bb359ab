"""Judging a chaos run: what its ledger, its database and its jobs' own log must show at the end.

Every rule of `verdict` is one that violence may not break; each breach is one line of text.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections import Counter, defaultdict

ENDS = {
    "succeeded": ("succeeded", None),
    "failed": ("failed", None),
    "timed_out": ("timed_out", "timeout"),
    "reaped": ("abandoned", "worker_crash"),
    "interrupted": ("abandoned", "worker_shutdown"),
}
EVENT = ("id", "job_id", "at", "event", "worker_id", "detail")
WAL_MOST = 32 * 1024 * 1024
EARLY = 0.005  # seconds: times are kept in milliseconds


class Unexplained(Exception):
    """An event that cannot follow those before it."""


class Story:
    """What a job's events say that it is: queued, running, done, dead, canceled, or doomed (no budget is
    left, so `dead` or a request has to follow)."""

    def __init__(self, max_retries, max_crashes):
        self.max_retries, self.max_crashes = max_retries, max_crashes
        self.state = self.previous = None
        self.attempts = self.crashes = self.attempt_no = 0
        self.outcomes = {}  # attempt number: its state and reason

    def tell(self, event, detail):
        forced = (detail or "").startswith("forced")
        # A request is honoured in the transaction that ends the attempt, whatever its own outcome was.
        by_request = forced and (self.state == "running" or self.previous in ENDS)
        if event == "added":
            self._need(self.state is None, event)
            self.state = "queued"
        elif event == "claimed":
            self._need(self.state == "queued", event)
            self.state = "running"
            self.attempt_no += 1
        elif event in ENDS:
            self._need(self.state == "running", event)
            self.outcomes[self.attempt_no] = ENDS[event]
            self._end(event)
        elif event == "dead":
            self._need(self.state == "doomed" and self.previous in ENDS, event)
            self.state = "dead"
        elif event == "canceled":
            self._need(by_request if forced else self.state == "queued", event)
            if self.state == "running":
                self.outcomes[self.attempt_no] = ("canceled", "canceled")
            self.state = "canceled"
        elif event == "retried":
            self._need(by_request if forced else self.state in ("queued", "dead", "canceled"), event)
            if self.state == "running":
                self.outcomes[self.attempt_no] = ("abandoned", "canceled")
            if forced or self.state != "queued":
                self.attempts = self.crashes = 0
            self.state = "queued"
        else:
            self._need(event == "stuck" and self.state == "running", event)
        self.previous = event

    def _need(self, holds, event):
        if not holds:
            raise Unexplained(f"{event} after {self.previous} while {self.state}")

    def _end(self, event):
        if event in ("succeeded", "interrupted"):
            self.state = "done" if event == "succeeded" else "queued"
            return
        self.attempts += 1
        self.crashes += event == "reaped"
        if event == "reaped":
            again = self.max_crashes is None or self.crashes <= self.max_crashes
        else:
            again = self.attempts - self.crashes <= self.max_retries
        self.state = "queued" if again else "doomed"


class Run:
    """What a run left in its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.spool = f"{folder}/.spoolctl"
        uri = f"file:{self.spool}/queue.db?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=20)) as db:
            self.integrity = db.execute("PRAGMA integrity_check").fetchall()
            self.jobs = {row["id"]: row for row in _rows(db, "jobs")}
            self.attempts = defaultdict(dict)
            for row in _rows(db, "attempts"):
                self.attempts[row["job_id"]][row["attempt_no"]] = row
            self.events = db.execute(f"SELECT {', '.join(EVENT)} FROM job_events ORDER BY id").fetchall()
            self.counts = db.execute("SELECT queue, kind, state, n FROM counts WHERE n <> 0").fetchall()
            self.workers = db.execute("SELECT label FROM workers ORDER BY 1").fetchall()
            self.marks = db.execute("SELECT count(*) FROM pruned").fetchone()[0]
        self.starts, self.ends, self.cries = Counter(), {}, []
        with open(f"{folder}/log") as log:
            for words in map(str.split, log):
                key = (int(words[1]), int(words[2]))
                if words[0] == "start":
                    self.starts[key] += 1
                elif words[0] == "end":
                    self.ends[key] = int(words[3])
                else:
                    self.cries.append((words[0], *key))


def _rows(db, table):
    cursor = db.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values)) for values in cursor]


def verdict(run, acknowledged, frames, biggest_wal):
    """(what was broken, what was counted).

    acknowledged: {job id: the job as it was asked for}. frames: every event as a follower saw it, also
    those of jobs that were pruned. biggest_wal: bytes.
    """
    broken = []
    stories = _stories(run, acknowledged, frames, broken)
    lost = _lost(run, acknowledged, stories, broken)
    _jobs(run, stories, broken)
    _log(run, broken)
    _keys(run, frames, broken)
    _frames(run, frames, broken)
    _left(run, broken)
    broken += [f"job {job_id} attempt {n}: {word}" for word, job_id, n in run.cries]
    if run.integrity != [("ok",)]:
        broken.append(f"integrity_check: {run.integrity[:3]}")
    rows = Counter((row["queue"], row["kind"], row["state"]) for row in run.jobs.values())
    if dict(rows) != {tuple(row[:3]): row[3] for row in run.counts}:
        broken.append(f"counts {run.counts} are not those of the rows {dict(rows)}")
    if biggest_wal > WAL_MOST:
        broken.append(f"the WAL grew to {biggest_wal} bytes")
    told = Counter(frame["event"] for frame in frames)
    return broken, {
        "attempts": told["claimed"],
        "states": dict(sorted(Counter(row["state"] for row in run.jobs.values()).items())),
        "reaped": told["reaped"],
        "interrupted": told["interrupted"],
        "stuck": told["stuck"],
        "forced": sum((frame["detail"] or "").startswith("forced") for frame in frames),
        "overlaps": sum(word == "overlap" for word, _, _ in run.cries),
        "crowded": sum(word == "crowded" for word, _, _ in run.cries),
        "lost": len(lost),
    }


def _stories(run, acknowledged, frames, broken):
    """{job id: its story}: each event has to follow from those before it."""
    stories = {}
    for frame in frames:
        job_id = frame["job_id"]
        if job_id not in stories:
            asked = run.jobs.get(job_id) or acknowledged.get(job_id)
            if asked is None:
                continue  # of a call that was killed before it answered, and pruned since
            stories[job_id] = Story(asked["max_retries"], asked.get("max_crashes", 10))
        try:
            stories[job_id].tell(frame["event"], frame["detail"])
        except Unexplained as problem:
            broken.append(f"job {job_id}: event {frame['id']}: {problem}")
    return stories


def _lost(run, acknowledged, stories, broken):
    """Acknowledged jobs that are neither there nor ended and were pruned; and those added twice."""
    lost = []
    for job_id, asked in acknowledged.items():
        row, story = run.jobs.get(job_id), stories.get(job_id)
        if row is not None:
            if row["note"] != asked.get("note"):
                broken.append(f"job {job_id} is {row['note']}, not {asked.get('note')}")
        elif "tags" not in asked or story is None or story.state not in ("done", "dead", "canceled"):
            lost.append(job_id)
            broken.append(f"job {job_id} was acknowledged and is lost: {story and story.state}")
    notes = Counter(row["note"] for row in run.jobs.values() if row["note"] is not None)
    broken += [f"{note} was added {n} times" for note, n in notes.items() if n > 1]
    return lost


def _jobs(run, stories, broken):
    """Rows of jobs and attempts are what the events say."""
    for job_id, row in run.jobs.items():
        story = stories.get(job_id)
        if story is None:
            broken.append(f"job {job_id} has no events")
            continue
        seen = tuple(row[name] for name in ("state", "attempts", "crashes", "attempt_no"))
        said = (story.state, story.attempts, story.crashes, story.attempt_no)
        if seen != said:
            broken.append(f"job {job_id} is {seen}, its events say {said}")
        if row["state"] not in ("done", "dead", "canceled"):
            broken.append(f"job {job_id} is {row['state']} at the end")
        attempts = run.attempts[job_id]
        if sorted(attempts) != list(range(1, story.attempt_no + 1)):
            broken.append(f"job {job_id} has the attempts {sorted(attempts)} of {story.attempt_no}")
        before = 0
        for n, attempt in sorted(attempts.items()):
            state, reason = story.outcomes.get(n, (None, None))
            # Ended for the sake of `retry --force` when a cancel came and took the place of that request.
            overtaken = state == "canceled" and attempt["error"] == "force-retried"
            wrong = attempt["state"] != state or reason not in (None, attempt["failure_reason"])
            if wrong and not overtaken:
                seen = f"{attempt['state']}/{attempt['failure_reason']}"
                broken.append(f"job {job_id} attempt {n} is {seen}, its events say {state}/{reason}")
            if attempt["started_at"] < before - EARLY:
                broken.append(f"job {job_id} attempt {n} began before the one before it was over")
            before = attempt["finished_at"] or float("inf")


def _log(run, broken):
    """What the jobs themselves wrote down fits their attempts; and their output is kept."""
    for (job_id, n), times in run.starts.items():
        if times > 1:
            broken.append(f"job {job_id} attempt {n} started {times} times")
        if job_id not in run.jobs:
            continue
        if n not in run.attempts[job_id]:
            broken.append(f"job {job_id} attempt {n} ran, and has no row")
        try:
            with open(f"{run.spool}/output/{job_id}/{n}/stdout") as out:
                kept = out.readline().split()
        except OSError as error:
            kept = error
        if kept != [str(job_id), str(n)]:
            broken.append(f"job {job_id} attempt {n}: its output is not kept: {kept}")
    for job_id, row in run.jobs.items():
        for n, attempt in run.attempts[job_id].items():
            code = run.ends.get((job_id, n))
            if attempt["state"] == "succeeded" and code != 0:
                broken.append(f"job {job_id} attempt {n} succeeded, its log says {code}")
            if attempt["error"] in ("exit 1", "exit 2", "exit 3") and f"exit {code}" != attempt["error"]:
                broken.append(f"job {job_id} attempt {n}: {attempt['error']}, its log says {code}")
        if row["state"] == "done" and run.ends.get((job_id, row["attempt_no"])) != 0:
            broken.append(f"job {job_id} is done without a run that ended well")


def _keys(run, frames, broken):
    """At any time at most one job of a lane and key is queued or running."""
    holders = {}
    for frame in frames:
        row = run.jobs.get(frame["job_id"])
        if row is None or row["key"] is None:
            continue
        place = (row["queue"], row["key"])
        if frame["event"] in ("succeeded", "dead", "canceled"):
            if holders.get(place) == row["id"]:
                del holders[place]
        elif holders.setdefault(place, row["id"]) != row["id"]:
            broken.append(
                f"event {frame['id']}: jobs {holders[place]} and {row['id']} are both active: {place}"
            )


def _frames(run, frames, broken):
    """A follower saw each event of the ledger once, in order."""
    numbers = [frame["id"] for frame in frames]
    if any(a >= b for a, b in zip(numbers, numbers[1:])):
        broken.append("a follower saw events out of order, or twice")
    seen = {frame["id"]: tuple(frame[name] for name in EVENT) for frame in frames}
    kept = {row[0]: row for row in run.events}
    for number in kept.keys() - seen.keys():
        broken.append(f"a follower did not see event {kept[number]}")
    for number in seen.keys() & kept.keys():
        if seen[number] != kept[number]:
            broken.append(f"a follower saw {seen[number]} for {kept[number]}")
    for number, job_id, _, _, _, _ in run.events:
        if job_id not in run.jobs:
            broken.append(f"event {number} is of job {job_id}, which is gone")


def _left(run, broken):
    """Nothing stays of workers that left or died, nor of jobs that were pruned."""
    if run.workers:
        broken.append(f"rows of workers were left: {run.workers}")
    for name in sorted(os.listdir(f"{run.spool}/workers")):
        # Free files of the killed are swept later; a lock that is held is somebody who lives.
        if name.endswith(".lock") and _held(f"{run.spool}/workers/{name}"):
            broken.append(f"a worker is left: it holds {name}")
    if run.marks:
        broken.append(f"{run.marks} marks of a prune were left")
    output = set(os.listdir(f"{run.spool}/output")) - {str(job_id) for job_id in run.jobs}
    if output:
        broken.append(f"output of jobs that are gone: {sorted(output)[:20]}")
    for name in sorted(os.listdir(f"{run.folder}/locks"), key=int):
        if _held(f"{run.folder}/locks/{name}"):
            broken.append(f"a process of job {name} is left: it holds the job's lock")


def _held(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
