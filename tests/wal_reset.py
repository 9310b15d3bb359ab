"""The schedule of SQLite's WAL-reset bug, played with real processes: who makes checkpoints all the time is
stopped at any instruction, a commit starts the log anew meanwhile, and the checkpoint goes on.

Every writer owns some rows, each on a page of its own, and counts them up one a transaction. A commit that
was acknowledged and is gone shows as a row that counts less.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time

from support import clean_env

from spoolctl import paths
from spoolctl.errors import SpoolctlError
from spoolctl.store import db as store_db
from spoolctl.store.checkpoint import Checkpointer
from spoolctl.store.open import open_writer

ROWS = 64
BEFORE, AFTER = 8, 12  # commits of a round, fewer than ROWS: none is overwritten before it is seen
PATIENCE = 0.005  # seconds a commit waits while somebody is stopped inside the lock

MAKE = "CREATE TABLE counted (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, page BLOB NOT NULL)"
ADD_ROW = "INSERT INTO counted VALUES (?, 0, zeroblob(3000))"
COUNT_UP = "UPDATE counted SET n = n + 1 WHERE id = ?"
NUMBERS = "SELECT id, n FROM counted"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


def make(path):
    db = open_writer(paths.Spool(path, "flag"), create=True)
    db.execute(MAKE)
    with db.write():
        for row in range(2 * ROWS):
            db.execute(ADD_ROW, (row,))
    db.close()


class Writer:
    """Commits through the product's only BEGIN, to the rows from `first` on."""

    def __init__(self, path, first):
        self.db = open_writer(paths.Spool(path, "flag"))
        self.db.impatient(PATIENCE)
        self.first = first
        self.acknowledged = dict.fromkeys(range(first, first + ROWS), 0)
        self.commits = self.refused = 0

    def commit(self):
        row = self.first + self.commits % ROWS
        try:
            with self.db.write(full=False) as conn:
                conn.execute(COUNT_UP, (row,))
        except (SpoolctlError, sqlite3.OperationalError) as error:
            if "lock" not in str(error):
                raise
            self.refused += 1
            return
        self.commits += 1
        self.acknowledged[row] += 1

    def lost(self, conn):
        """{row: (acknowledged, there)} of rows that count less, as another connection sees them."""
        there = dict(conn.execute(NUMBERS))
        return {row: (n, there.get(row)) for row, n in self.acknowledged.items() if there.get(row, -1) < n}


def checkpoints(path, guarded):
    """Make checkpoints until killed. Without the guard: as any program does that calls SQLite for one."""
    db = open_writer(paths.Spool(path, "flag"))
    db.impatient(PATIENCE)
    bare = store_db.connect(db.spool, 0)
    made = Checkpointer(db, 1)
    print("ready", flush=True)
    while True:
        try:
            made.run() if guarded else bare.execute(CHECKPOINT).fetchone()
        except (SpoolctlError, sqlite3.OperationalError):
            pass


def writes(path):
    """Commit now and then until stdin is closed; then say what was lost."""
    one = Writer(path, ROWS)
    watcher = store_db.connect(one.db.spool)
    print("ready", flush=True)
    lost: "dict[int, object]" = {}
    while not lost and not select.select([0], [], [], random.random() * 0.004)[0]:
        one.commit()
        lost = one.lost(watcher)
    print(one.commits, lost, flush=True)


class Play:
    """What came of it: rounds, commits, refusals, seconds, and what was lost ('' for nothing)."""

    def __init__(self, path, guarded, seconds):
        make(path)
        self.rounds = 0
        self.lost = ""
        began = time.monotonic()
        started = [_start("checkpoints", path, "guarded" * guarded) for _ in range(2)]
        started.append(_start("writes", path))
        try:
            for process in started:
                assert process.stdout.readline() == b"ready\n"
            self._play(path, started[0].pid, began + seconds)
            started[2].stdin.close()
            other, _, lost = started[2].stdout.readline().decode().partition(" ")
            self.lost = self.lost or lost.strip().replace("{}", "")
            self.others = int(other or 0)
        finally:
            for process in started:
                process.kill()
                process.wait()
                process.stdout.close()
                process.stdin.close()
        self.seconds = time.monotonic() - began
        self.whole = _whole(path)

    def _play(self, path, stopped, until):
        writer = Writer(path, 0)
        watcher = store_db.connect(writer.db.spool)
        try:
            while time.monotonic() < until and not self.lost:
                self.rounds += 1
                for _ in range(BEFORE):
                    writer.commit()
                time.sleep(random.random() * 0.002)  # until the whole log is copied, as a rule
                os.kill(stopped, signal.SIGSTOP)
                try:
                    writer.commit()
                finally:
                    os.kill(stopped, signal.SIGCONT)
                time.sleep(0.0005)
                for _ in range(AFTER):
                    writer.commit()
                self.lost = str(writer.lost(watcher) or "")
        except sqlite3.DatabaseError as damaged:
            self.lost = str(damaged)
        finally:
            self.commits, self.refused = writer.commits, writer.refused
            watcher.close()
            writer.db.close()

    def __str__(self):
        what = f"lost: {self.lost[:200]}" if self.lost else "nothing lost"
        return (
            f"SQLite {sqlite3.sqlite_version}: {what} after {self.seconds:.1f} s, {self.rounds} rounds, "
            f"{self.commits + self.others} commits; {self.refused} had to wait; integrity: {self.whole}"
        )


def _start(*words):
    line = [sys.executable, "-B", os.path.abspath(__file__), *words]
    env = clean_env()
    env["PYTHONPATH"] += os.pathsep + os.path.dirname(os.path.abspath(__file__))
    return subprocess.Popen(line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _whole(path):
    with sqlite3.connect(path) as conn:
        return conn.execute("PRAGMA integrity_check(1)").fetchone()[0]


if __name__ == "__main__":
    role, place, *rest = sys.argv[1:]
    if role == "checkpoints":
        checkpoints(place, rest == ["guarded"])
    else:
        writes(place)
