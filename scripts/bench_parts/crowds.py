"""Contention: sixteen processes that add, each call a process; and the gate alone against SQLite's own
waiting.

All of a crowd wait for one pipe to be closed, and so begin together. The bare crowd runs `python -c pass`
the same way, half of it before and half after the adders.
"""

import json
import os
import sqlite3
import subprocess
import time

from .board import quantile
from .tools import Unmeasured

CROWD = 16
CALLER = """
import json, os, sys, time
n, argv, took = int(sys.argv[1]), sys.argv[2:], []
quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
sys.stdin.read()
for _ in range(n):
    began = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=quiet)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    took.append((time.perf_counter() - began, status))
print(json.dumps(took))
"""
COMMITTER = """
import fcntl, json, os, random, sqlite3, sys, time
n, way, db = int(sys.argv[1]), sys.argv[2], sys.argv[3]
fd = os.open(db + ".gate", os.O_RDWR | os.O_CREAT, 0o600)
conn = sqlite3.connect(db, timeout=60, isolation_level=None)
conn.execute("PRAGMA synchronous = FULL")
conn.execute("SELECT count(*) FROM t").fetchone()
took = []
sys.stdin.read()
for i in range(n):
    time.sleep(random.uniform(0.005, 0.015))
    began = time.perf_counter()
    if way == "gate":
        fcntl.flock(fd, fcntl.LOCK_EX)
    conn.execute("BEGIN IMMEDIATE")
    conn.execute("INSERT INTO t (text) VALUES (?)", ("x" * 500,))
    conn.execute("COMMIT")
    if way == "gate":
        fcntl.flock(fd, fcntl.LOCK_UN)
    took.append((time.perf_counter() - began, 0))
print(json.dumps(took))
"""
BUCKETS = (25, 50, 100, 200, 400, 800, 1600)  # milliseconds


def crowd(bench, program, *words, how=None):
    """[(seconds, exit status)] of each call of sixteen processes, and how long all took."""
    how = how or bench.bare
    held, release = os.pipe()
    argv = [bench.python, "-c", program, *map(str, words)]
    try:
        members = [bench.crew.start(argv, stdin=held, stdout=subprocess.PIPE, **how) for _ in range(CROWD)]
    finally:
        os.close(held)
    time.sleep(0.3 if bench.quick else 1)
    began = time.perf_counter()
    os.close(release)
    told = [process.communicate()[0] for process in members]
    whole = time.perf_counter() - began
    failed = any(process.returncode for process in members)
    bench.crew.end(members)
    if failed:
        raise Unmeasured("a member of the crowd failed")
    return [tuple(call) for text in told for call in json.loads(text)], whole


def p99(calls):
    return quantile(sorted(took for took, _ in calls), 0.99)


def histogram(calls):
    """How many calls took how long, in words."""
    counts = dict.fromkeys([*BUCKETS, None], 0)
    for took, _ in calls:
        counts[next((most for most in BUCKETS if took * 1000 < most), None)] += 1
    words = [f"<{most} {n}" if most else f"more {n}" for most, n in counts.items() if n]
    return "ms: " + ", ".join(words)


def contention(bench):
    calls = 25 if bench.quick else 100
    bare_argv = (bench.python, "-c", "pass")
    for _ in range(bench.times(1, 1)):
        for tool in bench.tools:
            place = bench.place(tool)
            place.add("--", "true")
            for _ in range(4):
                place.worker()
            bare, _ = crowd(bench, CALLER, calls // 2, *bare_argv)
            added, whole = crowd(bench, CALLER, calls, *place.argv("add", "--", "true"), how=place.how)
            place.wait_for(lambda place=place: not place.ask("status")["counts"]["queued"])
            bare += crowd(bench, CALLER, calls - calls // 2, *bare_argv)[0]
            locked = sum(status == 4 for _, status in added)
            other = {status for _, status in added} - {0, 4}
            if other:
                raise Unmeasured(f"add ended with {other}")
            bench.board.note("contention_locked", tool, locked)
            bench.board.note("contention_p99", tool, p99(added) / p99(bare))
            bench.board.note("contention_rate", tool, len(added) / whole)
            bench.board.fact("contention_p99", tool, add=histogram(added), bare=histogram(bare))
            bench.crew.end()


def gate(bench):
    """A small program, not the tool: what the two ways of waiting make of the same commits, each of which
    comes some ten milliseconds after the one before, as if a process had to start for it."""
    commits = 30 if bench.quick else 100
    mine = bench.tools[0]
    for number in range(bench.times(3, 1)):
        seen = {}
        for way in ("gate", "handler"):
            db = os.path.join(bench.folder, f"{way}-{number}.db")
            conn = sqlite3.connect(db)
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
            conn.commit()
            seen[way] = crowd(bench, COMMITTER, commits, way, db)
            conn.close()
        rates = {way: len(calls) / whole for way, (calls, whole) in seen.items()}
        tails = {way: p99(calls) for way, (calls, _) in seen.items()}
        bench.board.note("gate_rate", mine, rates["gate"] / rates["handler"])
        bench.board.note("gate_p99", mine, tails["gate"] / tails["handler"])
        worst = {way: max(calls)[0] for way, (calls, _) in seen.items()}
        bench.board.note("gate_worst", mine, worst["gate"] / worst["handler"])
    told = {f"{way}_commits_a_second": rate for way, rate in rates.items()}
    bench.board.fact("gate_rate", mine, **told)
    bench.board.fact("gate_p99", mine, **{way: histogram(calls) for way, (calls, _) in seen.items()})
