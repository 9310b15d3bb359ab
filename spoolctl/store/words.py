"""The words by which people name what a queue holds, newest first: jobs, lanes, keys, tags.

Bounded: a fixed number of the newest jobs is looked at, whatever the queue holds.
"""

from .db import Db
from .filter import Filter, matching
from .select import holes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST_JOBS = 50
NEWEST = 500  # jobs that are looked at for keys and tags
MOST = 200  # lanes, keys or tags

# A payload may have megabytes, of which a line is shown.
JOBS = """
SELECT id, state, argv, substr(payload, 1, 100) FROM jobs WHERE id IN ({}) ORDER BY id DESC
"""
LANES = """
SELECT DISTINCT queue FROM counts WHERE n > 0 AND (:queue IS NULL OR queue = :queue)
ORDER BY queue LIMIT :most
"""
KEYS = "SELECT key FROM jobs WHERE id IN ({}) AND key IS NOT NULL ORDER BY id DESC"
TAGS = "SELECT key || '=' || value FROM job_tags WHERE job_id IN ({}) ORDER BY job_id DESC, key"


def of(db: Db, kind: str, queue: "str | None") -> "list[tuple[str, str | None]]":
    """(word, what it means or None) of `jobs`, `lanes`, `keys` or `tags`; of one lane where given."""
    with db.read():
        if kind == "jobs":
            return [_job(row) for row in _newest(db, JOBS, queue, NEWEST_JOBS)]
        if kind == "lanes":
            rows = db.all(LANES, {"queue": queue, "most": MOST})
        else:
            rows = _newest(db, KEYS if kind == "keys" else TAGS, queue, NEWEST)
    return [(word, None) for word in list(dict.fromkeys(str(row[0]) for row in rows))[:MOST]]


def _newest(db: Db, statement: str, queue: "str | None", most: int) -> "list[tuple[Any, ...]]":
    ids = matching(db, Filter(queue=queue), most, newest_first=True)
    return db.all(statement.format(holes(ids)), ids)


def _job(row: "tuple[Any, ...]") -> "tuple[str, str]":
    from . import jobs

    job_id, state, argv, payload = row
    words = jobs.words(argv)
    return str(job_id), f"{state} {' '.join(words) if words is not None else payload or ''}"
