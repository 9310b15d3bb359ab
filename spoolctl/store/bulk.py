"""Many jobs in one transaction: staged in TEMP tables with no lock held, then one INSERT … SELECT.

A slow producer locks nobody out, and a line that is refused leaves nothing behind. Keys are checked
by joins inside the transaction, never row by row; equal keys within the batch before it.
"""

from . import jobs, sqlite3
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .db import Row

# What differs from line to line; all the rest is stored once for the lines that share it, as a shape.
OWN = ("queue", "argv", "payload", "env", "key", "note")
SHARED = tuple(column for column in jobs.ADDED if column not in OWN)

_LINE = ("n", "line", "shape", *OWN)
_KEY = _LINE.index("key")

STAGE = f"CREATE TEMP TABLE staged (n INTEGER PRIMARY KEY, {', '.join(_LINE[1:])})"
STAGE_SHAPES = f"CREATE TEMP TABLE staged_shapes (shape INTEGER PRIMARY KEY, scope, {', '.join(SHARED)})"
# CROSS: in this order, or a plan might go through the shapes first.
STAGE_JOBS = f"""
CREATE TEMP VIEW staged_jobs AS SELECT s.n, s.line, p.scope,
  {", ".join(("s." if column in OWN else "p.") + column for column in jobs.ADDED)}
FROM staged s CROSS JOIN staged_shapes p ON p.shape = s.shape
"""
STAGE_TAGS = (
    "CREATE TEMP TABLE staged_tags (n INTEGER, key TEXT, value TEXT, PRIMARY KEY (n, key)) WITHOUT ROWID"
)
# All but the first of the staged jobs with one lane and key, with that first one.
STAGE_REPEATED = "CREATE TEMP TABLE staged_repeated (n INTEGER PRIMARY KEY, first INTEGER NOT NULL)"
# The job that has a staged job's key: an active one, or for scope `kept` the newest.
STAGE_HELD = "CREATE TEMP TABLE staged_held (n INTEGER PRIMARY KEY, job_id INTEGER NOT NULL)"
STAGES = (STAGE, STAGE_SHAPES, STAGE_JOBS, STAGE_TAGS, STAGE_REPEATED, STAGE_HELD)


def _put(table: str, columns: "tuple[str, ...]") -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


PUT = _put("staged", _LINE)
PUT_SHAPE = _put("staged_shapes", ("shape", "scope", *SHARED))
PUT_TAG = _put("staged_tags", ("n", "key", "value"))
ROWS = f"SELECT {', '.join(_LINE)} FROM staged ORDER BY n"
SHAPES = f"SELECT shape, scope, {', '.join(SHARED)} FROM staged_shapes ORDER BY shape"
TAG_ROWS = "SELECT n, key, value FROM staged_tags ORDER BY n, key"

KEY_INDEX = "CREATE INDEX temp.staged_key ON staged (queue, key) WHERE key IS NOT NULL"
REPEAT = """
INSERT INTO staged_repeated (n, first)
SELECT s.n, f.first FROM (
  SELECT queue, key, min(n) AS first FROM staged WHERE key IS NOT NULL GROUP BY queue, key HAVING count(*) > 1
) f CROSS JOIN staged s ON s.queue = f.queue AND s.key = f.key WHERE s.key IS NOT NULL AND s.n > f.first
"""
ALL_REPEATED = "SELECT n, first FROM staged_repeated ORDER BY n"
DROP_REPEATED = "DELETE FROM staged WHERE n IN (SELECT n FROM staged_repeated)"

HOLD_ACTIVE = """
INSERT INTO staged_held (n, job_id)
SELECT s.n, j.id FROM staged s JOIN jobs j
  ON j.queue = s.queue AND j.key = s.key AND j.state IN ('queued', 'running')
WHERE s.key IS NOT NULL ORDER BY s.n
"""
HOLD_KEPT = """
INSERT OR IGNORE INTO staged_held (n, job_id)
SELECT s.n, max(j.id) FROM staged_jobs s JOIN jobs j ON j.key = s.key AND j.queue = s.queue
WHERE s.key IS NOT NULL AND s.scope = 'kept' GROUP BY s.n
"""
ALL_HELD = "SELECT n, job_id FROM staged_held ORDER BY n"

# A staged job s beside what keeps its key: an earlier one of the batch, or a job.
_BESIDE_FIRST = "staged_repeated r JOIN staged_jobs s ON s.n = r.n JOIN staged_jobs j ON j.n = r.first"
_BESIDE_HELD = "staged_held r JOIN staged_jobs s ON s.n = r.n JOIN jobs j ON j.id = r.job_id"
_DIFFERS = " OR ".join(
    f"s.{column} IS NOT j.{column}" for columns in jobs.EXECUTION.values() for column in columns
)
_OTHER_TAGS = """
  EXISTS (SELECT key, value FROM staged_tags WHERE n = s.n EXCEPT SELECT key, value FROM {theirs})
  OR EXISTS (SELECT key, value FROM {theirs} EXCEPT SELECT key, value FROM staged_tags WHERE n = s.n)
"""
_COUNT_DIFFERING = (
    "SELECT count(*) FROM {beside} WHERE s.note IS NOT j.note OR s.asked IS NOT j.asked OR {tags}"
)

FIRST_ODD = f"""
SELECT r.n, r.first FROM {_BESIDE_FIRST}
WHERE s.scope <> j.scope OR (s.scope = 'active' AND ({_DIFFERS})) ORDER BY r.n LIMIT 1
"""
FIRST_CONFLICT = f"""
SELECT r.n, r.job_id FROM {_BESIDE_HELD} WHERE s.scope = 'active' AND ({_DIFFERS}) ORDER BY r.n LIMIT 1
"""
COUNT_DIFFERING_REPEATED = _COUNT_DIFFERING.format(
    beside=_BESIDE_FIRST, tags=_OTHER_TAGS.format(theirs="staged_tags WHERE n = r.first")
)
COUNT_DIFFERING_HELD = _COUNT_DIFFERING.format(
    beside=_BESIDE_HELD, tags=_OTHER_TAGS.format(theirs="job_tags WHERE job_id = j.id")
)

_FRESH = "WHERE n NOT IN (SELECT n FROM staged_held)"
DUE_LANES = f"""
SELECT DISTINCT queue FROM staged_jobs {_FRESH} AND next_run_at <= :now ORDER BY queue LIMIT 100
"""
STAGED_ROW = f"SELECT line, scope, {', '.join(jobs.ADDED)} FROM staged_jobs WHERE n = :n"
LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"
ADD_STAGED = f"""
INSERT INTO jobs (state, {", ".join(jobs.ADDED)})
SELECT 'queued', {", ".join(jobs.ADDED)} FROM staged_jobs {_FRESH} ORDER BY n
"""
ADD_EVENTS = """
INSERT INTO job_events (job_id, at, event)
SELECT id, created_at, 'added' FROM jobs WHERE id > :base ORDER BY id
"""
ADD_TAGS = f"""
INSERT INTO job_tags (job_id, key, value)
SELECT :base + f.place, t.key, t.value
FROM (SELECT n, row_number() OVER (ORDER BY n) AS place FROM staged {_FRESH}) f
JOIN staged_tags t ON t.n = f.n ORDER BY f.n, t.key
"""


class Stage:
    """Jobs that wait to be added, in order. `n` counts from 1; `line` is where each came from."""

    def __init__(self, db: "Db | None") -> None:
        """db None: the queue does not exist yet, so stage beside it until it is sure to be made."""
        self.conn = db.conn if db is not None else sqlite3.connect("", isolation_level=None)
        self.count = 0
        self.shapes = 0
        self.keyed = False
        self.kept = False  # whether a scope is `kept`
        self.tagged = False
        for statement in STAGES:
            self.conn.execute(statement)
        self.conn.execute("BEGIN")  # of the TEMP tables alone: takes no lock of the queue

    def shape(self, scope: str, values: "tuple[Any, ...]") -> int:
        """The number of a new shape: what lines share of their rows, `values` of SHARED."""
        self.shapes += 1
        self.conn.execute(PUT_SHAPE, (self.shapes, scope, *values))
        self.kept = self.kept or scope == "kept"
        return self.shapes

    def put(self, rows: "list[tuple[Any, ...]]", tags: "list[tuple[int, str, str]]") -> None:
        """Stage rows of (n, line, shape, *OWN) and tags of (n, key, value)."""
        self.conn.executemany(PUT, rows)
        self.count += len(rows)
        self.keyed = self.keyed or any(row[_KEY] is not None for row in rows)
        if tags:
            self.conn.executemany(PUT_TAG, tags)
            self.tagged = True

    def repeat(self) -> "tuple[int, int] | None":
        """Note which staged jobs have the lane and key of an earlier one, and which that is.

        Returns the first (n, n of that one) that must not share it, because the two differ.
        """
        if not self.keyed:
            return None
        self.conn.execute(KEY_INDEX)
        self.conn.execute(REPEAT)
        return self.conn.execute(FIRST_ODD).fetchone()

    def seal(self) -> int:
        """End staging, without the repeated ones; how many of these differ from the first of their key in
        tags, note or schedule."""
        differing = 0
        if self.keyed:
            differing = int(self.conn.execute(COUNT_DIFFERING_REPEATED).fetchone()[0])
            self.conn.execute(DROP_REPEATED)
        self.conn.execute("COMMIT")
        return differing

    def move(self, db: Db) -> "Stage":
        """The same jobs staged on the connection of a queue that was made meanwhile."""
        other = Stage(db)
        for source, target in (
            (SHAPES, PUT_SHAPE), (ROWS, PUT), (TAG_ROWS, PUT_TAG),
            (ALL_REPEATED, _put("staged_repeated", ("n", "first"))),
        ):  # fmt: skip
            other.conn.executemany(target, self.conn.execute(source))
        for name in ("count", "shapes", "keyed", "kept", "tagged"):
            setattr(other, name, getattr(self, name))
        other.conn.execute("COMMIT")
        self.conn.close()
        return other

    def row(self, n: int) -> "tuple[int, str, Row]":
        """(line, scope, row) of a staged job."""
        line, scope, *values = self.conn.execute(STAGED_ROW, {"n": n}).fetchone()
        return line, scope, dict(zip(jobs.ADDED, values))

    def repeated(self) -> "dict[int, int]":
        """{n: the n of the first staged job with the same lane and key}, as `repeat` found them."""
        return dict(self.conn.execute(ALL_REPEATED).fetchall())

    def held(self) -> "dict[int, int]":
        """{n: id of the job that has its key}, as `find_held` found them."""
        return dict(self.conn.execute(ALL_HELD).fetchall())

    def differing(self) -> int:
        """How many of the held differ from their job in tags, note or schedule."""
        return int(self.conn.execute(COUNT_DIFFERING_HELD).fetchone()[0]) if self.keyed else 0

    def due_lanes(self, now: float) -> "list[str]":
        """The lanes of what is staged and due, at most 100."""
        return [str(lane) for (lane,) in self.conn.execute(DUE_LANES, {"now": now})]


def find_held(conn: sqlite3.Connection, stage: Stage) -> "tuple[int, int] | None":
    """Note which staged jobs have a job of their key already, inside the caller's transaction.

    Returns the first (n, job id) that must not share it, because the two differ.
    """
    if not stage.keyed:
        return None
    conn.execute(HOLD_ACTIVE)
    if stage.kept:
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
