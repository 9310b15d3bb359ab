"""A queue of a million jobs in half a minute: jobs that the tool itself made, ran or canceled, multiplied.

What a row looks like is not known here: the columns of jobs, attempts and events are copied, and only what
tells one job from another is made anew. Nobody else may have the database open. The counts are made in one
go, as their triggers would have left them; no ANALYZE, since the tool makes none.
"""

import os
import sqlite3
import time
from contextlib import closing

LANES, TEAMS, STEP = 4, 3, 1.0  # a job a second, the newest a hundred seconds ago
SLOTS = 50

SERIES = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT :jobs)"
PICKED = (
    "n CROSS JOIN temp.pick ON slot = i % :slots CROSS JOIN temp.pattern_{table} t ON t.{job} = pick.job_id"
)
ADD_TAGS = f"""
INSERT INTO job_tags (job_id, key, value) {SERIES} SELECT :base + i, 'team', 't' || (i % :teams) FROM n
"""
AGED = "(:now - (:jobs - i + 100) * :step)"
ENDED = {
    "queue": "CASE i % :lanes WHEN 0 THEN 'default' ELSE 'lane' || (i % :lanes) END",
    "created_at": AGED,
    "next_run_at": AGED,
    "started_at": f"t.started_at - t.started_at + {AGED}",
    "finished_at": f"t.finished_at - t.finished_at + {AGED}",
}
WAITING = {
    "priority": "i % 5 - 2",
    "next_run_at": ":now + 86400 + i % 10000",
}
KEYED = {"id": ":base + i", "key": "'key-' || i"}


def fill(db, patterns, jobs):
    """Multiply the jobs `patterns` ({id: share in fifty}) to so many more, with their attempts and events.

    Ended jobs get the times of one that ended each second, and spread over four lanes; queued ones are due
    in a day, over five priorities. Each has a key and a tag `team`. Returns the id before the first new one.
    """
    with closing(sqlite3.connect(db, isolation_level=None)) as conn:
        for pragma in (
            "journal_mode = MEMORY",
            "synchronous = OFF",
            "cache_size = -300000",
            "temp_store = MEMORY",
        ):
            conn.execute(f"PRAGMA {pragma}")
        base = conn.execute("SELECT max(id) FROM jobs").fetchone()[0]
        ended = conn.execute("SELECT finished_at IS NOT NULL FROM jobs WHERE id = ?", [next(iter(patterns))])
        values = {
            "jobs": jobs, "base": base, "now": time.time(), "step": STEP, "lanes": LANES, "teams": TEAMS,
            "slots": SLOTS,
        }  # fmt: skip
        own = KEYED | (ENDED if ended.fetchone()[0] else WAITING)
        _patterns(conn, patterns)
        conn.execute("BEGIN IMMEDIATE")
        triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            conn.execute(f"DROP TRIGGER {name}")
        _multiply(conn, values, "jobs", "id", own)
        history = {"job_id": ":base + i", "at": AGED, "started_at": AGED, "finished_at": AGED}
        _multiply(conn, values, "attempts", "job_id", history | {"token": "lower(hex(randomblob(16)))"})
        _multiply(conn, values, "job_events", "job_id", history, without=("id",))
        conn.execute(ADD_TAGS, values)
        conn.execute("DELETE FROM counts")
        conn.execute("INSERT INTO counts SELECT queue, kind, state, count(*) FROM jobs GROUP BY 1, 2, 3")
        for _, statement in triggers:
            conn.execute(statement)
        conn.execute("COMMIT")
        conn.execute("PRAGMA journal_mode = WAL")
    _settle(db)
    return base


def _patterns(conn, patterns):
    conn.execute("CREATE TEMP TABLE pick (slot INTEGER PRIMARY KEY, job_id INTEGER)")
    slots = [job for job, share in patterns.items() for _ in range(share)]
    conn.executemany("INSERT INTO pick VALUES (?, ?)", list(enumerate(slots[:SLOTS])))
    for table, job in (("jobs", "id"), ("attempts", "job_id"), ("job_events", "job_id")):
        named = f"CREATE TEMP TABLE pattern_{table} AS SELECT * FROM {table}"
        conn.execute(f"{named} WHERE {job} IN ({', '.join(map(str, patterns))})")


def _multiply(conn, values, table, job, own, without=()):
    """Insert a copy of its pattern's rows for every new job; `own` says which columns differ, and how."""
    columns = [row[1] for row in conn.execute(f"PRAGMA table_info({table})") if row[1] not in without]
    made = [own.get(column, f"t.{column}") for column in columns]
    source = PICKED.format(table=table, job=job)
    conn.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) {SERIES} SELECT {', '.join(made)} FROM {source}",
        values,
    )


def _settle(db):
    """On disk before anything is measured: what is still to be written slows every commit."""
    fd = os.open(db, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def place_with(bench, tool, kind, jobs):
    """A place with so many `finished` or `delayed` jobs: `before` is the id before the first."""
    place = bench.place(tool)
    if kind == "delayed":
        patterns = {int(place.add("--after", "1d", "--", "true")): SLOTS}
    else:
        done = int(place.add("--", "true"))
        dead = int(place.add("--max-retries", "0", "--", "false"))
        canceled = int(place.add("--after", "1d", "--", "true"))
        place.ask("work", "--drain")
        place.ask("cancel", str(canceled))
        patterns = {dead: 1, canceled: 1, done: SLOTS - 2}
    place.before = fill(place.db, patterns, jobs)
    place.filled, place.jobs = time.time(), jobs
    return place
