"""Kill a first `add` at every line of the store it passes, and see what the next calls find."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from support import clean_env, document

KILLER = """
import json, os, signal, sys
from spoolctl import cli, paths
from spoolctl.store import open as store_open, ddl, db, gate, migrate, place, jobs, events, faults, bulk
import spoolctl.verbs.add, spoolctl.verbs._job, spoolctl.verbs.list, spoolctl.work.serving
import sqlite3

WATCHED = os.path.join("spoolctl", "store") + os.sep

class Sink:
    def __init__(self, fd): self.fd = fd
    def write(self, data): os.write(self.fd, data)
    def try_write(self, data): return True
    def isatty(self): return False

def call(words, kill_at=0, count=False):
    # In a child: dies at the line of that number in the store, or answers on a pipe; with count it
    # answers which numbers are the first, second and last time of a line.
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        seen, times = 0, {}
        def line(frame, event, arg):
            nonlocal seen
            if event == "line":
                seen += 1
                if seen == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if count:
                    times.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(seen)
            return line
        def enter(frame, event, arg):
            return line if WATCHED in frame.f_code.co_filename else None
        null = os.open(os.devnull, os.O_WRONLY)
        context = cli.Context({"PATH": "/usr/bin:/bin"}, Sink(null if count else writer), Sink(null))
        if kill_at or count:
            sys.settrace(enter)
        status = cli.run(words, context)
        sys.settrace(None)
        context.close()
        if count:
            chosen = {n for all in times.values() for n in (*all[:2], all[-1])}
            os.write(writer, json.dumps(sorted(chosen)).encode())
        os._exit(status)
    os.close(writer)
    out = b""
    while chunk := os.read(reader, 65536):
        out += chunk
    os.close(reader)
    return os.waitpid(pid, 0)[1], out.decode()

base = sys.argv[1]
setup = sys.argv[2] if len(sys.argv) > 2 else ""
if setup:
    exec(setup)
def add(n, count=False):
    path = os.path.join(base, f"{n}", "deep", "queue.db")
    if setup:
        prepare(path)
    return path, *call(["--db", path, "add", "--json", "--note", "first", "--", "true"], n, count)

_, _, numbers = add(0, count=True)
for n in [*json.loads(numbers), 10**9]:
    path, killed, answer = add(n)
    read, listed = call(["--db", path, "list", "--json"])
    again, second = call(["--db", path, "add", "--json", "--note", "second", "--", "true"])
    final, jobs = call(["--db", path, "list", "--json", "--fields", "id,note"])
    print(json.dumps([n, path, killed, answer, read, listed, again, second, final, jobs]), flush=True)
"""

CALLS = {2: "add", 4: "list", 6: "add", 8: "list"}  # where each is found in a row


def killed_at_every_line(folder, setup=""):
    """(line, path, the killed call, a reader, the next add, the jobs) for every line of the store, the
    first, second and last time it is reached. A call is (what wait gave, its answer: None if none)."""
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(folder), setup],
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stderr == ""
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 100, "no line was reached"
    assert rows[-1][2] == 0, "the last call was not killed"
    assert all(row[2] == signal.SIGKILL for row in rows[:-1])
    for row in rows:
        for n, verb in CALLS.items():
            exit = os.waitstatus_to_exitcode(row[n])
            row[n + 1] = document(row[n + 1], verb, status=max(exit, 0)) if row[n + 1] else None
    return rows
