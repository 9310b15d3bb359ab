"""The append-only ledger: adding a row, and reading on from an id.

Ids are given inside the one write transaction there can be, so they become visible in their own
order: a reader that goes on from the last id it saw misses nothing.
"""

from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from .db import Row

APPEND = """
INSERT INTO job_events (job_id, at, event, worker_id, detail)
VALUES (:job_id, :at, :event, :worker_id, :detail)
"""


def append(
    conn: "sqlite3.Connection",
    job_id: int,
    at: float,
    event: str,
    worker_id: "str | None" = None,
    detail: "str | None" = None,
) -> None:
    """Add a row, inside the transaction of what it tells of."""
    conn.execute(
        APPEND, {"job_id": job_id, "at": at, "event": event, "worker_id": worker_id, "detail": detail}
    )


COLUMNS = ("id", "job_id", "at", "event", "worker_id", "detail")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM job_events"

PAGE_SINCE = f"{SELECT} WHERE id > :since ORDER BY id LIMIT :most"
PAGE_OF_JOB_SINCE = f"{SELECT} WHERE job_id = :job AND id > :since ORDER BY id LIMIT :most"


def page(db: Db, since: int, most: int, job_id: "int | None" = None) -> "list[Row]":
    """At most `most` events after the id `since`, oldest first; of one job where it is given."""
    sql = PAGE_SINCE if job_id is None else PAGE_OF_JOB_SINCE
    return [
        dict(zip(COLUMNS, row, strict=True))
        for row in db.all(sql, {"since": since, "most": most, "job": job_id})
    ]


FIRST_KEPT = "SELECT min(id) FROM job_events"
FIRST_KEPT_OF_JOB = "SELECT min(id) FROM job_events WHERE job_id = :job"


def first_id(db: Db, job_id: "int | None" = None) -> "int | None":
    """The oldest event kept, None when there is none."""
    found = db.one(FIRST_KEPT if job_id is None else FIRST_KEPT_OF_JOB, {"job": job_id})
    return int(found[0]) if found and found[0] is not None else None


LAST = "SELECT coalesce(max(id), 0) FROM job_events"


def last_id(db: Db) -> int:
    """The newest event, 0 when there is none: the present end of the ledger."""
    found = db.one(LAST)
    return int(found[0]) if found else 0
