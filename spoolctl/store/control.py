"""What people and programs ask of jobs: cancel and retry, at once or as a request to the owner (SPEC 6)."""

from ..contract.states import RETRIABLE
from . import events
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from .db import Row

CANCEL_IF_QUEUED = """
UPDATE jobs SET state = 'canceled', finished_at = :now WHERE id = :id AND state = 'queued'
"""
RETRY_IF_ENDED = f"""
UPDATE jobs SET state = 'queued', next_run_at = :now, finished_at = NULL, attempts = 0, crashes = 0,
  last_exit_code = NULL, last_signal = NULL, last_error = NULL, last_failure_reason = NULL
WHERE id = :id AND state IN ({", ".join(f"'{state}'" for state in RETRIABLE)})
"""
HURRY_IF_DELAYED = (
    "UPDATE jobs SET next_run_at = :now WHERE id = :id AND state = 'queued' AND next_run_at > :now"
)
# A cancel replaces a requeue, never the other way round.
REQUEST_IF_RUNNING = """
UPDATE jobs SET request = :request, request_detail = :detail, requested_at = :now, request_seen_at = NULL
WHERE id = :id AND state = 'running' AND attempt_no = :attempt_no
  AND (request IS NULL OR (request = 'requeue' AND :request = 'cancel'))
"""
TAKE_BACK_IF_NOT_STARTED = """
UPDATE jobs SET request = NULL, request_detail = NULL, requested_at = NULL, request_seen_at = NULL
WHERE id = :id AND state = 'running' AND attempt_no = :attempt_no AND request = :request
  AND request_seen_at IS NULL AND EXISTS (SELECT 1 FROM attempts
    WHERE job_id = :id AND attempt_no = :attempt_no AND state = 'running' AND pid IS NULL)
"""
RESTATE_IF_STANDING = """
UPDATE jobs SET request_detail = :detail
WHERE id = :id AND state = 'running' AND attempt_no = :attempt_no AND request = :request
"""
STAMP_IF_RUNNING = """
UPDATE jobs SET request_seen_at = :now
WHERE id = :id AND state = 'running' AND attempt_no = :attempt_no AND request IS NOT NULL
  AND request_seen_at IS NULL
"""
REQUESTS_OF = """
SELECT id, attempt_no, request, request_seen_at FROM jobs INDEXED BY jobs_running
WHERE state = 'running' AND owner = :owner AND request IS NOT NULL ORDER BY id
"""
KEY_HOLDER = """
SELECT h.id FROM jobs j JOIN jobs h ON h.queue = j.queue AND h.key = j.key AND h.id <> j.id
WHERE j.id = :id AND h.state IN ('queued', 'running') ORDER BY h.id LIMIT 1
"""
WATCHED = """
SELECT state, attempt_no, request, request_seen_at, owner FROM jobs WHERE id = :id
"""


def cancel_queued(conn: "sqlite3.Connection", job_id: int, now: float) -> bool:
    """Cancel a queued job at once; False when it is not queued."""
    if conn.execute(CANCEL_IF_QUEUED, {"id": job_id, "now": now}).rowcount == 0:
        return False
    events.append(conn, job_id, now, "canceled")
    return True


def key_holder(conn: "sqlite3.Connection", job_id: int) -> "int | None":
    """The active job that holds this job's key in its lane."""
    found = conn.execute(KEY_HOLDER, {"id": job_id}).fetchone()
    return int(found[0]) if found else None


def retry_ended(conn: "sqlite3.Connection", job_id: int, now: float) -> bool:
    """Queue a dead or canceled job again with a fresh budget; False when it is neither.

    The caller has asked `key_holder` in the same transaction.
    """
    if conn.execute(RETRY_IF_ENDED, {"id": job_id, "now": now}).rowcount == 0:
        return False
    events.append(conn, job_id, now, "retried")
    return True


def hurry(conn: "sqlite3.Connection", job_id: int, now: float) -> bool:
    """Make a delayed job due now; False when it is not delayed."""
    if conn.execute(HURRY_IF_DELAYED, {"id": job_id, "now": now}).rowcount == 0:
        return False
    events.append(conn, job_id, now, "retried")
    return True


def request(
    conn: "sqlite3.Connection", job_id: int, attempt_no: int, what: str, detail: str, now: float
) -> bool:
    """Ask the owner of a running attempt to end it; False when it runs no more or a request stands."""
    values = {"id": job_id, "attempt_no": attempt_no, "request": what, "detail": detail, "now": now}
    return conn.execute(REQUEST_IF_RUNNING, values).rowcount == 1


def take_back(conn: "sqlite3.Connection", job_id: int, attempt_no: int, what: str) -> bool:
    """Withdraw a request that the owner has not seen, while no child of the attempt is recorded.

    With a child on record it stands: another caller may be ending the tree for it already.
    """
    values = {"id": job_id, "attempt_no": attempt_no, "request": what}
    return conn.execute(TAKE_BACK_IF_NOT_STARTED, values).rowcount == 1


def restate(conn: "sqlite3.Connection", job_id: int, attempt_no: int, what: str, detail: str) -> None:
    """Change what the event of a standing request will say."""
    values = {"id": job_id, "attempt_no": attempt_no, "request": what, "detail": detail}
    conn.execute(RESTATE_IF_STANDING, values)


def stamp(conn: "sqlite3.Connection", job_id: int, attempt_no: int, now: float) -> None:
    """Mark a request as seen by the owner."""
    conn.execute(STAMP_IF_RUNNING, {"id": job_id, "attempt_no": attempt_no, "now": now})


def requests_of(db: Db, owner: int) -> "list[tuple[int, int, str, float | None]]":
    """(job id, attempt number, request, when it was seen) of this owner's running jobs."""
    return db.all(REQUESTS_OF, {"owner": owner})


def watched(db: Db, job_id: int) -> "Row | None":
    """What a caller that waits for a request looks at."""
    found = db.one(WATCHED, {"id": job_id})
    names = ("state", "attempt_no", "request", "request_seen_at", "owner")
    return dict(zip(names, found)) if found else None
