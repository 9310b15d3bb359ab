"""Many jobs in one transaction: staged in a TEMP table with no lock held, then one INSERT … SELECT.

A slow producer locks nobody out, and a line that is refused leaves nothing behind. Keys are checked
against active jobs by one join inside the transaction; equal keys within the batch before it.
"""

import sqlite3

from . import jobs
from .db import Db

_COLUMNS = ("n", "line", "scope", *jobs.ADDED)

STAGE = f"""
CREATE TEMP TABLE staged (
  n INTEGER PRIMARY KEY, line INTEGER NOT NULL, scope TEXT NOT NULL,
  {", ".join(jobs.ADDED)}
)
"""
STAGE_TAGS = (
    "CREATE TEMP TABLE staged_tags (n INTEGER, key TEXT, value TEXT, PRIMARY KEY (n, key)) WITHOUT ROWID"
)
PUT = f"INSERT INTO staged ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
PUT_TAG = "INSERT INTO staged_tags (n, key, value) VALUES (?, ?, ?)"
ROWS = f"SELECT {', '.join(_COLUMNS)} FROM staged ORDER BY n"
TAG_ROWS = "SELECT n, key, value FROM staged_tags ORDER BY n, key"

REPEATED = """
SELECT s.n, (SELECT min(f.n) FROM staged f WHERE f.queue = s.queue AND f.key = s.key)
FROM staged s WHERE s.key IS NOT NULL ORDER BY s.n
"""
KEY_INDEX = "CREATE INDEX temp.staged_key ON staged (queue, key) WHERE key IS NOT NULL"
HELD = """
SELECT s.n, j.id FROM staged s JOIN jobs j
  ON j.queue = s.queue AND j.key = s.key AND j.state IN ('queued', 'running')
WHERE s.key IS NOT NULL ORDER BY s.n
"""
KEPT = """
SELECT s.n, (SELECT max(j.id) FROM jobs j WHERE j.key = s.key AND j.queue = s.queue)
FROM staged s WHERE s.key IS NOT NULL AND s.scope = 'kept' ORDER BY s.n
"""
DUE_LANES = "SELECT DISTINCT queue FROM staged WHERE next_run_at <= :now ORDER BY queue LIMIT 100"
STAGED_ROW = f"SELECT line, scope, {', '.join(jobs.ADDED)} FROM staged WHERE n = :n"
STAGED_TAGS = "SELECT key, value FROM staged_tags WHERE n = :n ORDER BY key"
DROP = "DELETE FROM staged WHERE n = :n"
LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"
ADD_STAGED = f"""
INSERT INTO jobs (state, {", ".join(jobs.ADDED)})
SELECT 'queued', {", ".join(jobs.ADDED)} FROM staged ORDER BY n
"""
ADD_EVENTS = """
INSERT INTO job_events (job_id, at, event)
SELECT id, created_at, 'added' FROM jobs WHERE id > :base ORDER BY id
"""
ADD_TAGS = """
INSERT INTO job_tags (job_id, key, value)
SELECT :base + f.place, t.key, t.value
FROM (SELECT n, row_number() OVER (ORDER BY n) AS place FROM staged) f
JOIN staged_tags t ON t.n = f.n ORDER BY f.n, t.key
"""


class Stage:
    """Jobs that wait to be added, in order. `n` counts from 1; `line` is where each came from."""

    def __init__(self, db: "Db | None") -> None:
        """db None: the queue does not exist yet, so stage beside it until it is sure to be made."""
        self.conn = db.conn if db is not None else sqlite3.connect("", isolation_level=None)
        self.count = 0
        self.tagged = False
        self._open()

    def _open(self) -> None:
        self.conn.execute(STAGE)
        self.conn.execute(STAGE_TAGS)
        self.conn.execute("BEGIN")  # of the TEMP tables alone: takes no lock of the queue

    def put(self, rows: "list[tuple[object, ...]]", tags: "list[tuple[int, str, str]]") -> None:
        """Stage rows of (n, line, scope, *jobs.ADDED) and tags of (n, key, value)."""
        self.conn.executemany(PUT, rows)
        self.count += len(rows)
        if tags:
            self.conn.executemany(PUT_TAG, tags)
            self.tagged = True

    def seal(self) -> None:
        """End staging and index the keys."""
        self.conn.execute("COMMIT")

    def move(self, db: Db) -> "Stage":
        """The same jobs staged on the connection of a queue that was made meanwhile."""
        other = Stage(db)
        rows = self.conn.execute(ROWS)
        while chunk := rows.fetchmany(2000):
            other.put(chunk, [])
        tags = self.conn.execute(TAG_ROWS)
        while chunk := tags.fetchmany(2000):
            other.put([], chunk)
        other.seal()
        self.conn.close()
        return other

    def row(self, n: int) -> "tuple[int, str, dict[str, object]]":
        """(line, scope, row) of a staged job."""
        line, scope, *values = self.conn.execute(STAGED_ROW, {"n": n}).fetchone()
        return line, scope, dict(zip(jobs.ADDED, values))

    def tags(self, n: int) -> "dict[str, str]":
        return dict(self.conn.execute(STAGED_TAGS, {"n": n}).fetchall())

    def repeated(self) -> "dict[int, int]":
        """{n: the n of the first staged job with the same lane and key}, for all but the first."""
        self.conn.execute(KEY_INDEX)
        return {n: first for n, first in self.conn.execute(REPEATED) if n != first}

    def held(self) -> "dict[int, int]":
        """{n: id of the job that has its key}, read inside the caller's transaction."""
        found = dict(self.conn.execute(HELD).fetchall())
        found.update((n, job_id) for n, job_id in self.conn.execute(KEPT) if job_id is not None)
        return found

    def due_lanes(self, now: float) -> "list[str]":
        """The lanes of what is staged and due, at most 100."""
        return [str(lane) for (lane,) in self.conn.execute(DUE_LANES, {"now": now})]

    def drop(self, n: int) -> None:
        self.conn.execute(DROP, {"n": n})


def add_staged(conn: sqlite3.Connection, stage: Stage) -> "tuple[int, int]":
    """Add what is staged, inside the caller's transaction; (first id, how many): ids are contiguous."""
    found = conn.execute(LAST_ID).fetchone()
    base = found[0] if found else 0
    added = conn.execute(ADD_STAGED).rowcount
    conn.execute(ADD_EVENTS, {"base": base})
    if stage.tagged:
        conn.execute(ADD_TAGS, {"base": base})
    return base + 1, added
