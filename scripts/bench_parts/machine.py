"""The machine's own figures, without which no ratio tells much; measured anew in every run."""

import os
import statistics
import subprocess
import sys
import time

from . import draining
from .tools import seconds

FACTS = (
    "import platform, sqlite3; print(platform.python_version(), sqlite3.sqlite_version, platform.platform())"
)


def sync_microseconds(folder, times):
    """The median of appending 8 KiB and making it durable."""
    sync = getattr(os, "fdatasync", os.fsync)
    path = os.path.join(folder, "sync")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    took = []
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(fd, b"x" * 8192)
            sync(fd)
            took.append(time.perf_counter() - began)
    finally:
        os.close(fd)
        os.unlink(path)
    return statistics.median(took) * 1e6


def filesystem(folder):
    """The type of the file system of a folder, by the table of mounts."""
    if sys.platform == "darwin":
        mounts = [line.partition(" on ")[2] for line in _lines(["mount"])]
        pairs = [(line.rpartition(" (")[0], line.rpartition(" (")[2].partition(",")[0]) for line in mounts]
    else:
        with open("/proc/mounts") as file:
            pairs = [(words[1], words[2]) for words in map(str.split, file)]
    inside = [
        (len(where), kind) for where, kind in pairs if (folder + "/").startswith(where.rstrip("/") + "/")
    ]
    return max(inside)[1] if inside else "?"


def _lines(argv):
    return subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()


def facts(bench):
    """What the machine and its interpreter are, and how fast."""
    folder = bench.folder
    python, sqlite, system = _lines([bench.python, "-c", FACTS])[0].split(" ", 2)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    jobs = 300 if bench.quick else 1000
    bare = statistics.median(seconds([bench.python, "-c", "pass"], bench.bare) for _ in range(20)) * 1e3
    return {
        "system": system,
        "cores": cores,
        "load": os.getloadavg()[0],
        "python": python,
        "sqlite": sqlite,
        "file system": filesystem(folder),
        "python -c pass, ms": bare,
        "8 KiB + fdatasync, us": sync_microseconds(folder, 100 if bench.quick else 500),
        "Popen loop, jobs/s": draining.ceiling(bench, folder, jobs, "bare"),
        "durable loop, jobs/s": draining.ceiling(bench, folder, jobs, "durable"),
        "xargs -P2, jobs/s": draining.xargs(bench, jobs),
        "environment": bench.environment,
    }
