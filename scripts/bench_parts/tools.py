"""The commands that are measured, the folders they work in, and every process that is started for it.

Whatever a run starts is in its crew, and is ended with it.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import time

QUIET = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)


class Unmeasured(Exception):
    """Why a metric has no value."""


class Crew:
    """Processes, each the leader of its group, and pids of commands that workers run for us."""

    def __init__(self):
        self.processes, self.pids = [], set()

    def start(self, argv, **how):
        process = subprocess.Popen(argv, start_new_session=True, **how)
        self.processes.append(process)
        return process

    def end(self, processes=None):
        """TERM, then KILL what is left after two seconds, group by group."""
        ending = list(self.processes if processes is None else processes)
        for process in ending:
            if process.poll() is None:
                self._signal(process, signal.SIGCONT)
                self._signal(process, signal.SIGTERM)
        deadline = time.monotonic() + 2
        for process in ending:
            try:
                process.wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._signal(process, signal.SIGKILL)
                process.wait()
        self.processes = [process for process in self.processes if process not in ending]

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                self._signal(process, signal.SIGKILL)
            process.wait()
        for pid in self.pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self.processes, self.pids = [], set()

    @staticmethod
    def _signal(process, number):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)


class Tool:
    """A command with the verbs of the tool: `ours`, or the other one."""

    def __init__(self, name, command, environ):
        self.name, self.command, self.environ = name, command, environ


class Place:
    """A folder with a queue of one tool."""

    def __init__(self, tool, folder, crew):
        self.tool, self.folder, self.crew = tool, folder, crew
        # Made here: the tool would otherwise take a queue of a folder above for its own.
        os.makedirs(os.path.join(folder, ".spoolctl"), 0o700)
        self.db = os.path.join(folder, ".spoolctl", "queue.db")
        self.how = {"cwd": folder, "env": tool.environ}
        self.jobs = self.before = self.filled = 0  # of a place of many jobs (many.py)

    def argv(self, *words):
        return [*self.tool.command, *words]

    def seconds(self, *words, feed=None):
        """How long a call takes, start and end of its process included. Raises Unmeasured."""
        return seconds(self.argv(*words), self.how, feed)

    def ask(self, *words, feed=None):
        """The data of a call's answer. Raises Unmeasured."""
        done = subprocess.run(
            self.argv(words[0], "--json", *words[1:]), input=feed, stdin=None if feed else subprocess.DEVNULL,
            capture_output=True, text=True, **self.how,
        )  # fmt: skip
        if done.returncode:
            raise Unmeasured(f"{words[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[:400]}")
        return json.loads(done.stdout)["data"]

    def add(self, *words):
        return str(self.ask("add", *words)["job_id"])

    def fill(self, jobs):
        """Add so many jobs that run `true`."""
        self.ask("add", "--from", "-", feed='{"argv":["true"]}\n' * jobs)

    def begin(self, argv):
        """Start a process that is ended with the run, and says nothing."""
        return self.crew.start(argv, **QUIET, **self.how)

    def worker(self, *words):
        """A worker that stays, once it has registered."""
        process = self.begin(self.argv("work", *words))
        self.wait_for(lambda: self.serving(process.pid))
        return process

    def serving(self, pid):
        return any(one["pid"] == pid for one in self.ask("status", "--limit", "1000")["workers"])

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Unmeasured(f"waited {seconds} s for something that did not come")
            time.sleep(0.02)

    def state(self, job_id):
        return self.ask("show", job_id)["job"]["state"]


def seconds(argv, how, feed=None):
    """How long a process takes from start to end. Raises Unmeasured when it fails."""
    source = open(feed, "rb") if feed else None  # noqa: SIM115
    try:
        began = time.perf_counter()
        process = subprocess.Popen(
            argv,
            stdin=source or subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **how,
        )
        try:
            status = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        took = time.perf_counter() - began
    finally:
        if source:
            source.close()
    if status:
        raise Unmeasured(f"{' '.join(argv[:6])} ended with {status}")
    return took


class Fifo:
    """What commands tell at their start: each writes a line into it, whose arrival is timed."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "started")
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def job(self, then="exit 0"):
        """A command line that tells its pid, then does what is asked."""
        return f'echo $$ >"{self.path}"; {then}'

    def read(self, seconds):
        """(when a line came, by the monotonic clock; the pid in it), or None after that time."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        if not poller.poll(seconds * 1000):
            return None
        at = time.monotonic()
        return at, int(os.read(self.fd, 4096).split()[0])
