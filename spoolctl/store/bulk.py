"""Many jobs in one transaction: staged in a TEMP table with no lock held, then one INSERT … SELECT.

A slow producer locks nobody out, and a line that is refused leaves nothing behind. Keys are checked
by joins inside the transaction, never row by row; equal keys within the batch before it.
"""

import sqlite3

from . import jobs
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .db import Row

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
# The job that has a staged job's key: an active one, or for scope `kept` the newest.
HELD_TABLE = "CREATE TEMP TABLE staged_held (n INTEGER PRIMARY KEY, job_id INTEGER NOT NULL)"
HOLD_ACTIVE = """
INSERT INTO staged_held (n, job_id)
SELECT s.n, j.id FROM staged s JOIN jobs j
  ON j.queue = s.queue AND j.key = s.key AND j.state IN ('queued', 'running')
WHERE s.key IS NOT NULL ORDER BY s.n
"""
HOLD_KEPT = """
INSERT OR IGNORE INTO staged_held (n, job_id)
SELECT s.n, max(j.id) FROM staged s JOIN jobs j ON j.key = s.key AND j.queue = s.queue
WHERE s.key IS NOT NULL AND s.scope = 'kept' GROUP BY s.n
"""
_HELD = "staged_held h JOIN staged s ON s.n = h.n JOIN jobs j ON j.id = h.job_id"
_DIFFERS = " OR ".join(
    f"s.{column} IS NOT j.{column}" for columns in jobs.EXECUTION.values() for column in columns
)
FIRST_CONFLICT = f"""
SELECT s.n, j.id FROM {_HELD} WHERE s.scope = 'active' AND ({_DIFFERS}) ORDER BY s.n LIMIT 1
"""
COUNT_DIFFERING = f"""
SELECT count(*) FROM {_HELD} WHERE s.note IS NOT j.note OR s.asked IS NOT j.asked
  OR EXISTS (SELECT key, value FROM staged_tags WHERE n = s.n
    EXCEPT SELECT key, value FROM job_tags WHERE job_id = j.id)
  OR EXISTS (SELECT key, value FROM job_tags WHERE job_id = j.id
    EXCEPT SELECT key, value FROM staged_tags WHERE n = s.n)
"""
ALL_HELD = "SELECT n, job_id FROM staged_held ORDER BY n"
_FRESH = "staged WHERE n NOT IN (SELECT n FROM staged_held)"
DUE_LANES = f"SELECT DISTINCT queue FROM {_FRESH} AND next_run_at <= :now ORDER BY queue LIMIT 100"
STAGED_ROW = f"SELECT line, scope, {', '.join(jobs.ADDED)} FROM staged WHERE n = :n"
STAGED_TAGS = "SELECT key, value FROM staged_tags WHERE n = :n ORDER BY key"
DROP = "DELETE FROM staged WHERE n = :n"
LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"
ADD_STAGED = f"""
INSERT INTO jobs (state, {", ".join(jobs.ADDED)})
SELECT 'queued', {", ".join(jobs.ADDED)} FROM {_FRESH} ORDER BY n
"""
ADD_EVENTS = """
INSERT INTO job_events (job_id, at, event)
SELECT id, created_at, 'added' FROM jobs WHERE id > :base ORDER BY id
"""
ADD_TAGS = f"""
INSERT INTO job_tags (job_id, key, value)
SELECT :base + f.place, t.key, t.value
FROM (SELECT n, row_number() OVER (ORDER BY n) AS place FROM {_FRESH}) f
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
        self.conn.execute(HELD_TABLE)
        self.conn.execute("BEGIN")  # of the TEMP tables alone: takes no lock of the queue

    def put(self, rows: "list[tuple[Any, ...]]", tags: "list[tuple[int, str, str]]") -> None:
        """Stage rows of (n, line, scope, *jobs.ADDED) and tags of (n, key, value)."""
        self.conn.executemany(PUT, rows)
        self.count += len(rows)
        if tags:
            self.conn.executemany(PUT_TAG, tags)
            self.tagged = True

    def seal(self) -> None:
        """End staging."""
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
        other.count = self.count
        other.seal()
        self.conn.close()
        return other

    def row(self, n: int) -> "tuple[int, str, Row]":
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
        """{n: id of the job that has its key}, as `find_held` found them."""
        return dict(self.conn.execute(ALL_HELD).fetchall())

    def differing(self) -> int:
        """How many of the held differ from their job in tags, note or schedule."""
        return int(self.conn.execute(COUNT_DIFFERING).fetchone()[0])

    def due_lanes(self, now: float) -> "list[str]":
        """The lanes of what is staged and due, at most 100."""
        return [str(lane) for (lane,) in self.conn.execute(DUE_LANES, {"now": now})]

    def drop(self, numbers: "list[int]") -> None:
        self.conn.executemany(DROP, [{"n": n} for n in numbers])


def find_held(conn: sqlite3.Connection) -> "tuple[int, int] | None":
    """Note which staged jobs have a job of their key already, inside the caller's transaction.

    Returns the first (n, job id) that must not share it, because the two differ.
    """
    conn.execute(HOLD_ACTIVE)
    conn.execute(HOLD_KEPT)
    return conn.execute(FIRST_CONFLICT).fetchone()


def add_staged(conn: sqlite3.Connection, stage: Stage) -> "tuple[int, int]":
    """Add what is staged, inside the caller's transaction; (first id, how many): ids are contiguous."""
    found = conn.execute(LAST_ID).fetchone()
    base = found[0] if found else 0
    added = conn.execute(ADD_STAGED).rowcount
    conn.execute(ADD_EVENTS, {"base": base})
    if stage.tagged:
        conn.execute(ADD_TAGS, {"base": base})
    return base + 1, added
