"""How soon somebody who waits is told: an idle worker of a job, a command of its end, a worker of a death.

Starts are told through a FIFO that the command writes into; ends by a pidfd. A time below zero means that
it happened before the call had returned.
"""

import os
import random
import select
import signal
import threading
import time

from .tools import Fifo, Unmeasured


def ended_at(pid, seconds):
    """When a process that runs now has ended, by the monotonic clock; None when it has not in that time."""
    if hasattr(os, "pidfd_open"):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return time.monotonic()
        try:
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            return time.monotonic() if poller.poll(seconds * 1000) else None
        finally:
            os.close(fd)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return time.monotonic()
        time.sleep(0.001)
    return None


class Later:
    """A call in a thread, whose result is waited for."""

    def __init__(self, call, *words):
        self.value = None
        self.thread = threading.Thread(target=self._run, args=(call, words), daemon=True)
        self.thread.start()

    def _run(self, call, words):
        self.value = call(*words)

    def wait(self, what):
        self.thread.join()
        if self.value is None:
            raise Unmeasured(f"{what} did not come in time")
        return self.value


def returned_at(place, *words):
    """When a call has returned. Raises Unmeasured when it fails."""
    place.seconds(*words)
    return time.monotonic()


def served(bench):
    """For each tool (tool, place, FIFO): a queue with an idle worker that has run a job."""
    found = []
    for tool in bench.tools:
        place = bench.place(tool)
        place.add("--", "true")
        place.worker()
        place.wait_for(lambda place=place: place.state("1") == "done")
        found.append((tool, place, Fifo(place.folder)))
    return found


def wake(bench):
    phases = random.Random(1)
    queues = served(bench)
    for _ in range(bench.times(30, 8)):
        for tool, place, fifo in queues:
            # At any phase of whatever it may poll for, and with nothing left to do.
            time.sleep(phases.uniform(0.2, 0.5))
            started = Later(fifo.read, 20)
            returned = returned_at(place, "add", "-c", fifo.job())
            value = (started.wait("the start of the command")[0] - returned) * 1000
            bench.board.note("wake_median", tool, value)
            bench.board.note("wake_worst", tool, value)


def cancel(bench):
    queues = served(bench)
    for _ in range(bench.times(10, 3)):
        for tool, place, fifo in queues:
            job = place.add("-c", fifo.job("exec sleep 60"))
            pid = Later(fifo.read, 20).wait("the start of the command")[1]
            bench.crew.pids.add(pid)
            time.sleep(0.3)  # its worker is at rest
            gone = Later(ended_at, pid, 20)
            called = time.monotonic()
            returned = returned_at(place, "cancel", job, "--running", "--yes")
            at = gone.wait("the end of the command")
            bench.crew.pids.discard(pid)
            bench.board.note("cancel_gone", tool, (at - returned) * 1000)
            bench.board.note("cancel_whole", tool, (at - called) * 1000)


def recovery(bench):
    phases = random.Random(2)
    for _ in range(bench.times(4, 1)):
        for tool in bench.tools:
            place = bench.place(tool)
            _recover(bench, place, Fifo(place.folder), phases.uniform(1, 2))
            bench.crew.end()
            bench.leave(place)


def _recover(bench, place, fifo, rest):
    job = place.add("-c", fifo.job("exec sleep 60"))
    first = place.worker()
    old = Later(fifo.read, 20).wait("the start of the command")[1]
    bench.crew.pids.add(old)
    place.worker()
    time.sleep(rest)
    gone = Later(ended_at, old, 60)
    wall, killed = time.time(), time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    again, new = Later(fifo.read, 60).wait("the second start")
    bench.crew.pids.add(new)
    if gone.wait("the end of the old command") > again:
        raise Unmeasured("the job started again before its old command was gone")
    bench.crew.pids.discard(old)
    events = place.ask("events", "--job", job)["events"]
    reaped = next(event["at"] for event in events if event["event"] == "reaped")
    backoff = place.ask("show", job)["job"]["backoff"]["base"]
    bench.board.note("recovery_noticed", place.tool, reaped - wall)
    bench.board.note("recovery_again", place.tool, again - killed)
    bench.board.note("recovery_apart", place.tool, again - killed - backoff)
    bench.board.fact("recovery_again", place.tool, backoff_of_it=float(backoff))
    place.ask("cancel", job, "--running", "--yes")
    bench.crew.pids.discard(new)
