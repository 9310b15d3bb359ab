"""Drain: jobs a second of `work --drain`, against what the machine can do without any queue.

The ceilings are loops of the same interpreter: `Popen(["true"]).wait()` alone, and with 8 KiB made durable
a job, which is the least that a durable runner does. In each round half of a ceiling's jobs run before the
drain and half after it, and the ratio is taken within the round; the drain is timed as a whole call, start
and end included. No folder is removed meanwhile: that would slow those who make some.
"""

import os
import subprocess
import time

from .tools import Unmeasured

LOOP = """
import os, subprocess, sys, time
n, durable = int(sys.argv[1]), sys.argv[2] == "durable"
sync = getattr(os, "fdatasync", os.fsync)
log = os.open("ceiling.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
file = open("ceiling.out", "wb")
began = time.perf_counter()
for _ in range(n):
    subprocess.Popen(["true"], stdout=file, stderr=file, start_new_session=True).wait()
    if durable:
        os.write(log, b"x" * 8192)
        sync(log)
print(n / (time.perf_counter() - began))
"""
XARGS = ["xargs", "-P2", "-n1", "true"]


def ceiling(bench, folder, jobs, kind):
    """Jobs a second of a loop without a queue, `bare` or `durable`."""
    done = subprocess.run(
        [bench.python, "-c", LOOP, str(jobs), kind],
        cwd=folder,
        env=bench.bare["env"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Unmeasured(f"the {kind} loop ended with {done.returncode}: {done.stderr[-300:]}")
    os.unlink(os.path.join(folder, "ceiling.log"))
    return float(done.stdout)


def xargs(bench, jobs):
    """Jobs a second of xargs with two processes."""
    lines = "x\n" * jobs
    began = time.perf_counter()
    subprocess.run(XARGS, input=lines.encode(), env=bench.bare["env"], stdout=subprocess.DEVNULL, check=True)
    return jobs / (time.perf_counter() - began)


def drained(place, jobs, *words, workers=1):
    """Jobs a second of so many workers that drain the lane together."""
    place.fill(jobs)
    before = place.ask("status")["counts"]["done"]
    began = time.perf_counter()
    argv = place.argv("work", "--drain", "--json", *words)
    started = [place.begin(argv) for _ in range(workers)]
    for process in started:
        process.wait()
    took = time.perf_counter() - began
    place.crew.end(started)
    done = place.ask("status")["counts"]["done"] - before
    if done != jobs:
        raise Unmeasured(f"{done} of {jobs} jobs were done")
    return jobs / took


def between(measure, jobs, ceilings):
    """What `measure` says, and what each ceiling says of half the jobs before it and half after it."""
    before = [ceiling(jobs // 2) for ceiling in ceilings]
    rate = measure()
    after = [ceiling(jobs // 2) for ceiling in ceilings]
    return rate, [2 / (1 / one + 1 / other) for one, other in zip(before, after)]


def drain(bench):
    jobs = bench.jobs
    for _ in range(bench.times(4, 2)):
        for tool in bench.tools:
            place = bench.place(tool)
            ceilings = [
                lambda half, kind=kind, place=place: ceiling(bench, place.folder, half, kind)
                for kind in ("durable", "bare")
            ]
            rate, (durable, bare) = between(lambda place=place: drained(place, jobs), jobs, ceilings)
            bench.board.note("drain", tool, rate / durable)
            bench.board.note("drain_bare", tool, rate / bare)
            bench.board.note("drain_rate", tool, rate)


def parallel(bench):
    jobs = bench.jobs
    ways = {"drain_j2": (1, "-j", "2"), "drain_two": (2,), "drain_j8": (1, "-j", "8")}
    for _ in range(bench.times(3, 1)):
        for name in [name for name in ways if name in bench.wanted]:
            workers, *words = ways[name]
            for tool in bench.tools:
                place = bench.place(tool)

                def measure(place=place, workers=workers, words=words):
                    return drained(place, jobs, *words, workers=workers)

                rate, (most,) = between(measure, jobs, [lambda half: xargs(bench, half)])
                bench.board.note(name, tool, rate / most)
