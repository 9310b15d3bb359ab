"""Who takes part in a chaos run: its workers, its calls, and the clock that says when what is done."""

import heapq
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

from . import jobs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TICK = 0.01

# What a call may answer beside success.
REFUSALS = {
    "add": {"LOCKED", "IDEMPOTENCY_CONFLICT"},
    "cancel": {"LOCKED", "CONFLICT", "NOT_FOUND", "SAFETY_BLOCK"},
    "retry": {"LOCKED", "CONFLICT", "NOT_FOUND", "IDEMPOTENCY_CONFLICT", "SAFETY_BLOCK"},
    "prune": {"LOCKED"},
}
READERS = ("status", "list", "events", "show", "feedback", "output")


class Worker:
    """A `work` process, its name in the ledger, and what was done to it."""

    def __init__(self, place, label, process):
        self.place, self.label, self.process = place, label, process
        self.stopped = False
        self.expected = {0}  # exit statuses

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)


class Call:
    """A call under way; `then` is given its answer."""

    def __init__(self, words, process, then):
        self.words, self.process, self.then = words, process, then
        self.killed = False


class Staff:
    """Workers by their place, calls under way, and what is planned; `broken` collects what went wrong."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.spool = f"{folder}/.spoolctl"
        self.random = random.Random(options.seed)
        self.began = time.monotonic()
        self.counts = Counter()
        self.broken = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SPOOLCTL_", "PYTHON"))}
        self.env["PYTHONPATH"] = ROOT
        self.workers = {}
        self.calls = []
        self.plan = []  # (when, number, what to do)
        self.planned = 0
        self.violent = True
        self.staffed = True  # whether those who leave are replaced
        self.died = {}  # label: wall time of its death by SIGKILL
        self.hired = 0
        self.locked_out = set()  # of those that gave up at their start: another was stopped with the lock

    # --- time ---------------------------------------------------------------------------------------------

    def at(self, seconds, act):
        """Do `act` that many seconds from now."""
        self.planned += 1
        heapq.heappush(self.plan, (time.monotonic() + seconds, self.planned, act))

    def often(self, low, high, act):
        """Do `act` again and again, at random distances, as long as there is violence."""

        def once():
            if self.violent:
                act()
                self.at(self.random.uniform(low, high), once)

        self.at(self.random.uniform(low, high), once)

    def tick(self):
        now = time.monotonic()
        while self.plan and self.plan[0][0] <= now:
            heapq.heappop(self.plan)[2]()
        self.watch_workers()
        self.watch_calls()
        time.sleep(TICK)

    def until(self, done, seconds, what):
        """Go on until `done()`; False, and a breach, when that takes too long."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                self.broken.append(f"not within {seconds:.0f} s: {what}")
                return False
            self.tick()
        return True

    # --- workers ------------------------------------------------------------------------------------------

    def hire(self, place):
        if place in self.workers:
            return
        lane = jobs.LANES[place % len(jobs.LANES)]
        pick = self.random.choice
        words = ["--queue", lane, "--grace", pick(("0.2", "0.5", "1"))]
        words += ["--poll-interval", pick(("0.2", "0.5", "1", "5")), "-j", str(pick((1, 1, 2, 3, 4)))]
        if lane == "narrow":
            words += ["--slots", str(jobs.SLOTS)]
        if self.violent and self.random.random() < 0.25:
            words += pick((["--max-jobs", "12"], ["--idle-timeout", "1"], ["--drain"]))
        self.hired += 1
        label = f"w{self.hired}"
        self.workers[place] = Worker(place, label, self.work(label, words))

    def work(self, label, words):
        """Start a worker that knows its own number, and so do its jobs."""
        script = 'CHAOS_WORKER=$$ exec "$@"'
        line = [sys.executable, "-m", "spoolctl", "work", "--json", "--worker-id", label, *words]
        with open(f"{self.folder}/told/{label}", "wb") as told:
            told.write(f"{' '.join(line)}\n".encode())
            told.flush()
            return subprocess.Popen(
                ["sh", "-c", script, "sh", *line], cwd=self.folder, env=self.env,
                stdin=subprocess.DEVNULL, stdout=told, stderr=told, start_new_session=True,
            )  # fmt: skip

    def watch_workers(self):
        for place, worker in list(self.workers.items()):
            status = worker.process.poll()
            if status is None:
                continue
            del self.workers[place]
            if status == -signal.SIGKILL and worker.label not in self.died:
                self.died[worker.label] = time.time()
                self.counts["suicides"] += 1
            elif status == 4 and self.said_locked(worker.label):
                self.locked_out.add(worker.label)
            elif status not in worker.expected:
                self.broken.append(f"worker {worker.label} ended with status {status}")
            if self.violent:
                self.at(self.random.uniform(0, 0.5), lambda place=place: self.violent and self.hire(place))
            elif self.staffed:
                self.hire(place)

    def said_locked(self, label):
        with open(f"{self.folder}/told/{label}", "rb") as told:
            return b"spoolctl: LOCKED: " in told.read()

    # --- calls --------------------------------------------------------------------------------------------

    def call(self, *words, feed="", then=None):
        line = [sys.executable, "-m", "spoolctl", words[0], "--json", *words[1:]]
        with tempfile.TemporaryFile() as file:
            file.write(feed.encode())
            file.seek(0)
            # Through pipes: no answer here is larger than one holds.
            process = subprocess.Popen(
                line, cwd=self.folder, env=self.env, stdin=file,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        call = Call(words, process, then)
        self.calls.append(call)
        self.counts["calls"] += 1
        if self.violent and words[0] not in READERS and self.random.random() < 0.04:
            self.at(self.random.uniform(0.02, 0.3), lambda: self.kill_call(call))

    def kill_call(self, call):
        if call.process.poll() is None:
            call.killed = True
            call.process.kill()
            self.counts["killed calls"] += 1

    def watch_calls(self):
        for call in [one for one in self.calls if one.process.poll() is not None]:
            self.calls.remove(call)
            self.answered(call, *call.process.communicate())

    def answered(self, call, out, err):
        status, verb = call.process.returncode, call.words[0]
        shown = " ".join(call.words)[:200]
        if status == -signal.SIGKILL and call.killed:
            if call.then is not None:
                call.then(None, None)
            return
        try:
            answer = json.loads(out)
            code = answer["errors"][0]["code"] if answer["errors"] else None
        except (ValueError, LookupError, TypeError):
            self.broken.append(f"{shown}: status {status}, {out[-300:]!r} {err[-300:]!r}")
            return
        allowed = REFUSALS.get(verb, {"NOT_FOUND"})
        if code is not None and code not in allowed or code is None and status not in (0, 6):
            self.broken.append(f"{shown}: status {status}, {code}: {answer['errors'][:1]}")
        if code is not None:
            self.counts[code] += 1
        if call.then is not None:
            call.then(answer["data"], code)
