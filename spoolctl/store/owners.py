"""Running jobs and whose they are: what recovery and a draining worker look at."""

from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .db import Row

OTHER_OWNERS = """
SELECT DISTINCT owner FROM jobs WHERE state = 'running' AND owner NOT IN (0, :me) ORDER BY owner
"""
# The index of what runs is named: without it SQLite would walk all jobs for the sake of ORDER BY id.
_ATTEMPT = """
SELECT j.id, j.attempt_no, j.queue, j.owner, j.request, a.pid, a.pid_start, a.session, a.token, a.began,
  a.boot_id, a.pid_ns, a.worker_pid, a.worker_label, a.ending_since
FROM jobs j {} JOIN attempts a ON a.job_id = j.id AND a.attempt_no = j.attempt_no
WHERE j.state = 'running'
"""
_RUNNING = _ATTEMPT.format("INDEXED BY jobs_running")
RUNNING_OF = f"{_RUNNING} AND j.owner = :owner ORDER BY j.id"
RUNNING_JOB = f"{_ATTEMPT.format('')} AND j.id = :id"
RUNNING_IN_LANE = f"{_RUNNING} AND j.queue = :queue AND j.kind = :kind ORDER BY j.id"
HELD_BY = """
SELECT id, attempt_no FROM jobs INDEXED BY jobs_running WHERE state = 'running' AND owner = :owner ORDER BY id
"""
IN_BACKOFF = """
SELECT 1 FROM jobs WHERE state = 'queued' AND attempts > 0 AND queue = :queue AND kind = :kind LIMIT 1
"""
NAMES = (
    "id", "attempt_no", "queue", "owner", "request", "pid", "pid_start", "session", "token", "began",
    "boot_id", "pid_ns", "worker_pid", "worker_label", "ending_since",
)  # fmt: skip


def _rows(found: "list[tuple[Any, ...]]") -> "list[Row]":
    return [dict(zip(NAMES, values)) for values in found]


def others(db: Db, me: int) -> "list[int]":
    """The instances, other than `me`, that own a running job; consumers of leases are none."""
    return [int(owner) for (owner,) in db.all(OTHER_OWNERS, {"me": me})]


def running_of(db: Db, owner: int) -> "list[Row]":
    """An owner's running jobs, each with its attempt's identity (NAMES)."""
    return _rows(db.all(RUNNING_OF, {"owner": owner}))


def running_job(db: Db, job_id: int) -> "Row | None":
    rows = _rows(db.all(RUNNING_JOB, {"id": job_id}))
    return rows[0] if rows else None


def running_in_lane(db: Db, queue: str, kind: str) -> "list[Row]":
    return _rows(db.all(RUNNING_IN_LANE, {"queue": queue, "kind": kind}))


def held_by(db: Db, owner: int) -> "dict[int, int]":
    """{job id: attempt number} of an owner's running jobs."""
    return dict(db.all(HELD_BY, {"owner": owner}))


def in_backoff(db: Db, queue: str, kind: str) -> bool:
    """Whether a queued job of the lane has failed before and waits for its next try."""
    return db.one(IN_BACKOFF, {"queue": queue, "kind": kind}) is not None
