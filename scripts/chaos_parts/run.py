"""One chaos run: violence as long as jobs arrive, then peace until the queue has settled, then judgement."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from . import jobs, verdict
from .staff import Staff

PACE = 16  # jobs that arrive in a second
CALLS = 8  # at once; readers only half of them
QUIET = 60  # seconds a worker or a call has to end once there is peace


class Chaos(Staff):
    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.follower = None
        self.waiting = []  # batches of jobs whose time has come
        self.coming = 0  # batches that are not acknowledged
        self.acknowledged = {}
        self.seen = {"running": [], "queued": [], "ended": []}
        self.biggest_wal = 0

    def tick(self):
        if self.waiting and len(self.calls) < CALLS:
            self.add(self.waiting.pop(0))
        try:
            self.biggest_wal = max(self.biggest_wal, os.stat(f"{self.spool}/queue.db-wal").st_size)
        except FileNotFoundError:
            pass
        super().tick()

    # --- what is done to workers --------------------------------------------------------------------------

    def some_worker(self):
        alive = [one for _, one in sorted(self.workers.items()) if one.process.poll() is None]
        return self.random.choice(alive) if alive else None

    def kill(self):
        worker = self.some_worker()
        if worker is not None and worker.label not in self.died:
            worker.expected.add(-signal.SIGKILL)
            self.died[worker.label] = time.time()
            worker.send(signal.SIGKILL)
            self.counts["kills"] += 1

    def stop(self):
        """Shorter than the patience of calls, since a stopped worker may hold the write lock."""
        worker = self.some_worker()
        if worker is None or worker.stopped or sum(one.stopped for one in self.workers.values()) >= 2:
            return
        worker.stopped = True
        worker.send(signal.SIGSTOP)
        self.counts["stops"] += 1
        long = self.random.random() < 0.25
        self.at(self.random.uniform(*((1.2, 2.5) if long else (0.02, 0.5))), lambda: self.go_on(worker))

    def go_on(self, worker):
        worker.stopped = False
        worker.send(signal.SIGCONT)

    def term(self):
        worker = self.some_worker()
        if worker is None:
            return
        worker.expected.add(-signal.SIGTERM)  # before it listens, the signal ends it as any process
        worker.send(signal.SIGTERM)
        self.counts["terms"] += 1
        if self.random.random() < 0.5:
            self.at(self.random.uniform(0.02, 0.6), lambda: worker.send(signal.SIGTERM))

    # --- what is asked of jobs ----------------------------------------------------------------------------

    def add(self, batch):
        """Add jobs: one by flags or as a line, or many at once. What was not acknowledged for want of the
        lock is asked for again; an answer that was killed may have been given or not."""

        def then(data, code):
            if data is not None:
                for made, job_id in zip(batch, data.get("job_ids") or [data.get("job_id")]):
                    self.acknowledged[job_id] = made
            if code == "LOCKED":
                self.waiting.append(batch)
            else:
                self.coming -= 1

        if len(batch) == 1:
            self.call("add", *jobs.flags(batch[0]), then=then)
        else:
            self.call("add", "--from", "-", feed="".join(map(jobs.line, batch)), then=then)

    def some_jobs(self, *kinds):
        known = [job_id for kind in kinds for job_id in self.seen[kind]]
        if self.random.random() < 0.2 or not known:
            known = list(self.acknowledged)[-100:]
        return [str(job_id) for job_id in self.random.sample(known, min(self.few(), len(known)))]

    def few(self):
        return self.random.choice((1, 1, 1, 2, 5))

    def of_running(self, *words):
        """Ask something of running jobs: of those that have run longest, for they may still when it comes."""

        def then(data, code):
            running = sorted(data["jobs"], key=lambda job: job["started_at"]) if data else []
            ids = [str(job["id"]) for job in running[: len(running) // 2 + 1]]
            if ids:
                self.call(words[0], *self.random.sample(ids, min(len(ids), self.few())), *words[1:])

        self.call("list", "--state", "running", "--limit", "40", "--fields", "id,started_at", then=then)

    def cancel(self):
        if len(self.calls) >= CALLS:
            return
        self.counts["cancels"] += 1
        if self.random.random() < 0.5:
            self.of_running("cancel", "--running", "--yes")
        elif ids := self.some_jobs("queued"):
            self.call("cancel", *ids)

    def retry(self):
        if len(self.calls) >= CALLS:
            return
        self.counts["retries"] += 1
        kind = self.random.random()
        if kind < 0.2:
            self.call("retry", "--all-dead")
        elif kind < 0.6:
            self.of_running("retry", "--force")
        elif ids := self.some_jobs("queued" if kind < 0.7 else "ended"):
            self.call("retry", *ids, *(("--now",) if kind < 0.7 else ()))

    def prune(self, *more):
        states = "done,dead,canceled"
        self.call("prune", "--older-than", "4", "--state", states, "--tag", "brief", "--yes", *more)
        self.counts["prunes"] += 1

    def read(self):
        """Read something; what is learned says whom to cancel and to retry."""
        if len(self.calls) >= CALLS // 2:
            return
        kind = self.random.randrange(6)
        if kind < 3:
            name, state = (("running", "running"), ("queued", "queued"), ("ended", "dead,canceled"))[kind]

            def then(data, code):
                if data is not None:
                    self.seen[name] = [job["id"] for job in data["jobs"]]

            self.call("list", "--state", state, "--limit", "40", "--fields", "id,state", then=then)
        elif kind == 3:
            self.call("status")
        elif kind == 4:
            since = self.random.randrange(len(self.acknowledged) * 4 + 1)
            self.call("events", "--limit", "50", "--since-id", str(since))
        elif ids := self.some_jobs("running", "ended"):
            verb = self.random.choice(("show", "feedback", "output"))
            self.call(verb, ids[0])

    # --- the run ------------------------------------------------------------------------------------------

    def arrivals(self):
        """Every job there will be, in batches, each with its time."""
        number, when = 0, 0.0
        while number < self.options.jobs:
            size = self.random.choice((1, 1, 1, 2, 5, 10, 30))
            size = min(size, self.options.jobs - number)
            batch = [jobs.job(self.random, number + n) for n in range(size)]
            number += size
            self.coming += 1
            self.at(when, lambda batch=batch: self.waiting.append(batch))
            when += self.random.uniform(0.5, 1.5) * size / PACE
        return when

    def run(self):
        jobs.prepare(self.folder)
        os.mkdir(f"{self.folder}/told")
        for name in ("log", "frames"):
            open(f"{self.folder}/{name}", "w").close()
        length = self.arrivals()
        self.waiting.append([jobs.job(self.random, -1)])  # the queue is made before anybody reads it
        self.coming += 1
        self.until(lambda: self.acknowledged, QUIET, "the first job")
        self.follow()
        for place in range(self.options.workers):
            self.hire(place)
        share = 8 / self.options.workers
        self.often(0.1 * share, 0.6 * share, self.kill)
        self.often(0.2 * share, 1.5 * share, self.stop)
        self.often(0.5 * share, 3 * share, self.term)
        self.often(0.1, 0.7, self.cancel)
        self.often(0.1, 0.7, self.retry)
        self.often(2, 8, self.prune)
        self.often(0.05, 0.5, self.read)
        # Until all have arrived and a while longer: under violence alone a queue may never settle.
        self.until(lambda: not self.coming, self.left(), "every job to be added")
        ebb = time.monotonic() + 0.15 * length + 2
        self.until(lambda: time.monotonic() > ebb, self.left(), "the end of the violence")
        self.settle()
        return self.judge()

    def left(self):
        return max(1.0, self.began + self.options.seconds - time.monotonic())

    def follow(self):
        line = [sys.executable, "-m", "spoolctl", "events", "--follow", "--json", "--since-id", "0"]
        with open(f"{self.folder}/frames", "wb") as frames:
            self.follower = subprocess.Popen(
                line, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=frames
            )

    def settle(self):
        """Peace: who lives goes on, who is missing is replaced, until every job has ended."""
        self.violent = False
        for worker in list(self.workers.values()):
            self.go_on(worker)
        for place in range(self.options.workers):
            self.hire(place)
        lanes = sorted(set(jobs.LANES))
        active = [1]

        def look():
            def then(data, code):
                if data is not None:
                    active[0] = data["counts"]["queued"] + data["counts"]["running"]

            if not any(call.words[0] == "status" for call in self.calls):
                self.call("status", then=then)
            return not active[0]

        self.until(look, self.left(), "the queue to settle")
        self.until(lambda: not self.calls, QUIET, "the calls to end")
        self.staffed = False
        for worker in list(self.workers.values()):
            worker.send(signal.SIGTERM)
        self.until(lambda: not self.workers, QUIET, "the workers to leave")
        for lane in lanes:
            self.call("work", "--drain", "--queue", lane, then=self.drained)
        self.prune("--keep", "100000000")  # finishes what a killed one left
        self.until(lambda: not self.calls, QUIET, "the last drain and the last prune")

    def drained(self, data, code):
        if data is None or not data["drained"] or data["unsettled"]:
            self.broken.append(f"the last drain answered {data or code}")

    def judge(self):
        frames = self.frames()
        left = processes_below(self.folder, f"{self.spool}/queue.db")
        self.broken += [f"process {pid} is left: {words}" for pid, words in left]
        run = verdict.Run(self.folder)
        broken, facts = verdict.verdict(run, self.acknowledged, frames, self.biggest_wal)
        self.broken += broken
        begun = {frame["worker_id"] for frame in frames if frame["event"] == "claimed"}
        self.broken += [f"worker {label} gave up for a lock" for label in sorted(self.locked_out & begun)]
        recoveries = sorted(
            frame["at"] - self.died[frame["worker_id"]]
            for frame in frames
            if frame["event"] == "reaped" and frame["worker_id"] in self.died
        )
        table = {"seed": self.options.seed, "workers": self.options.workers, "jobs": len(self.acknowledged)}
        table |= {"attempts": facts.pop("attempts"), "hired": self.hired}
        for name in ("kills", "suicides", "stops", "terms", "cancels", "retries", "prunes", "calls"):
            table[name] = self.counts[name]
        table |= {
            "killed_calls": self.counts["killed calls"],
            "locked": self.counts["LOCKED"] + len(self.locked_out),
            **facts,
        }
        table["wal_mib"] = round(self.biggest_wal / 2**20, 1)
        table["median_recovery"] = round(recoveries[len(recoveries) // 2], 2) if recoveries else None
        table["longest_recovery"] = round(recoveries[-1], 2) if recoveries else None
        table["seconds"] = round(time.monotonic() - self.began, 1)
        table["broken"] = self.broken
        return table

    def frames(self):
        """What the follower saw, once it has seen the last event."""
        with sqlite3.connect(f"file:{self.spool}/queue.db?mode=ro", uri=True) as db:
            last = db.execute("SELECT max(id) FROM job_events").fetchone()[0]
        db.close()
        path = f"{self.folder}/frames"

        def read():
            with open(path) as lines:
                return [json.loads(line) for line in lines if line.endswith("\n")]

        self.until(lambda: (found := read()) and found[-1]["id"] >= last, QUIET, "the follower to see all")
        return read()

    def close(self):
        """End everything that was started, and what it left."""
        mine = [worker.process for worker in self.workers.values()] + [call.process for call in self.calls]
        for process in [*mine, *([self.follower] if self.follower else [])]:
            if process.poll() is None:
                process.kill()
            process.wait()
        for pid, _ in processes_below(self.folder, f"{self.spool}/queue.db"):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def processes_below(folder, db):
    """(pid, command) of each live process that works in the folder or carries a job's environment; the
    kept children of the last jobs end by themselves and are waited for."""
    mark = b"SPOOLCTL_JOB_DB=" + os.fsencode(db)
    deadline = time.monotonic() + 3
    while True:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")) if os.path.isdir("/proc/self") else ():
            try:
                stat = _bytes(name, "stat").rpartition(b")")[2].split()
                here = os.readlink(f"/proc/{name}/cwd")
                environ = _bytes(name, "environ").split(b"\0")
                words = _bytes(name, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if stat[0] in (b"Z", b"X") or "events --follow" in words:
                continue
            if mark in environ or here == folder:
                names = (b"SPOOLCTL_JOB_ID=", b"SPOOLCTL_ATTEMPT=")
                whose = [word.decode() for word in environ if word.startswith(names)]
                found.append((int(name), f"{words}(session {int(stat[3])}) {' '.join(whose)}"))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def _bytes(pid, what):
    with open(f"/proc/{pid}/{what}", "rb") as file:
        return file.read()
