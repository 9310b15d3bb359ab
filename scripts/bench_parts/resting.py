"""Idle workers: what one costs while nothing happens, and what twelve cost somebody who writes.

The writer commits as `add` does (the gate, BEGIN IMMEDIATE, synchronous=FULL, then a touch of the wake
file), but in one process, as fast as it can: delayed jobs, which concern every worker and none can run. It
copies the WAL back itself every 500 commits, so that both sides write into a log of the same size.
"""

import os
import sqlite3
import subprocess
import sys
import time

from .tools import Unmeasured

WRITER = """
import fcntl, os, sqlite3, sys, time
db, beside, seconds = sys.argv[1], os.path.dirname(sys.argv[1]), float(sys.argv[2])
gate = os.path.join(beside, "gate")
fd = os.open(gate, os.O_RDWR) if os.path.exists(gate) else -1
wake = os.path.join(beside, "wake")
wake = wake if os.path.exists(wake) else None
conn = sqlite3.connect(db, timeout=10, isolation_level=None)
conn.execute("PRAGMA wal_autocheckpoint = 0")
conn.execute("PRAGMA synchronous = FULL")
columns = ", ".join(row[1] for row in conn.execute("PRAGMA table_info(jobs)") if row[1] != "id")
add = f"INSERT INTO jobs ({columns}) SELECT {columns} FROM jobs WHERE id = 1"
tell = "INSERT INTO job_events (job_id, at, event) VALUES (?, ?, 'added')"
n, began = 0, time.perf_counter()
while time.perf_counter() - began < seconds:
    if fd >= 0:
        fcntl.flock(fd, fcntl.LOCK_EX)
    conn.execute("BEGIN IMMEDIATE")
    conn.execute(tell, (conn.execute(add).lastrowid, time.time()))
    conn.execute("COMMIT")
    n += 1
    if n % 500 == 0:
        conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if fd >= 0:
        fcntl.flock(fd, fcntl.LOCK_UN)
    if wake:
        os.utime(wake)
print(n / (time.perf_counter() - began))
"""


def cpu_seconds(pid):
    """The processor time a process has used, as finely as the system tells it."""
    if sys.platform == "darwin":
        text = subprocess.check_output(["ps", "-o", "cputime=", "-p", str(pid)], text=True).strip()
        minutes, _, rest = text.rpartition(":")
        return float(minutes) * 60 + float(rest)
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return sum(float(_read(f"/proc/{pid}/task/{one}/schedstat").split()[0]) for one in threads) / 1e9
    except FileNotFoundError:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    """The MiB of memory a process has."""
    if sys.platform == "darwin":
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) / 1024
    return int(_read(f"/proc/{pid}/status").partition("VmRSS:")[2].split()[0]) / 1024


def _read(path):
    with open(path) as file:
        return file.read()


def idle(bench):
    """All tools at once: each worker's own time is counted."""
    workers = []
    for tool in bench.tools:
        place = bench.place(tool)
        place.add("--", "true")
        worker = place.worker()
        place.wait_for(lambda place=place: place.state("1") == "done")
        workers.append((tool, worker.pid))
    time.sleep(2)
    began = time.monotonic()
    before = [cpu_seconds(pid) for _, pid in workers]
    time.sleep(5 if bench.quick else 30)
    took = time.monotonic() - began
    for (tool, pid), used in zip(workers, before):
        bench.board.note("idle_cpu", tool, (cpu_seconds(pid) - used) / took * 100)
        bench.board.note("idle_memory", tool, resident(pid))


def written(bench, place, seconds):
    """Commits a second of one writer."""
    argv = [bench.python, "-c", WRITER, place.db, str(seconds)]
    done = subprocess.run(argv, env=bench.bare["env"], capture_output=True, text=True)
    if done.returncode:
        raise Unmeasured(f"the writer ended with {done.returncode}: {done.stderr[-300:]}")
    return float(done.stdout)


def watchers(bench):
    pairs = {tool: (bench.place(tool), bench.place(tool)) for tool in bench.tools}
    for watched, alone in pairs.values():
        for place in (watched, alone):
            place.add("--after", "1d", "--", "true")
        for _ in range(12):
            watched.worker()
    # Somebody who only has it open: else the log would go with each writer, and grow anew under the next.
    keepers = [sqlite3.connect(alone.db) for _, alone in pairs.values()]
    for keeper in keepers:
        keeper.execute("SELECT id FROM jobs").fetchall()
    seconds = 1 if bench.quick else 2
    for number in range(-1, bench.times(4, 2)):
        for tool, places in pairs.items():
            rates = []
            for place in places:
                time.sleep(0.2)
                rates.append(written(bench, place, seconds))
            if number >= 0:  # in the first the logs grow
                bench.board.note("watchers", tool, rates[0] / rates[1])
                bench.board.fact("watchers", tool, commits_a_second_alone=rates[1])
    for keeper in keepers:
        keeper.close()
