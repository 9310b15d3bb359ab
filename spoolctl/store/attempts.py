"""Reading a job's attempts; claim and settle write them."""

from ..paths import Spool
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .db import Row

COLUMNS = (
    "job_id", "attempt_no", "state", "worker", "worker_label", "worker_pid", "boot_id", "pid_ns", "began",
    "token", "pid", "pid_start", "started_at", "finished_at", "exit_code", "signal", "error",
    "failure_reason", "lease_expires_at", "lease_boot", "lease_deadline", "ending_since", "ending_pids",
    "ending_why",
)  # fmt: skip
SELECT = f"SELECT {', '.join(COLUMNS)} FROM attempts"

OF_JOB = f"{SELECT} WHERE job_id = :job_id ORDER BY attempt_no"
LATEST = f"{SELECT} WHERE job_id = :job_id ORDER BY attempt_no DESC LIMIT 1"
BY_NUMBER = f"{SELECT} WHERE job_id = :job_id AND attempt_no = :attempt_no"


def _rows(found: "list[tuple[Any, ...]]") -> "list[Row]":
    return [dict(zip(COLUMNS, values, strict=True)) for values in found]


def of_job(db: Db, job_id: int) -> "list[Row]":
    """The rows of all attempts, oldest first."""
    return _rows(db.all(OF_JOB, {"job_id": job_id}))


def latest(db: Db, job_id: int) -> "Row | None":
    rows = _rows(db.all(LATEST, {"job_id": job_id}))
    return rows[0] if rows else None


def get(db: Db, job_id: int, attempt_no: int) -> "Row | None":
    rows = _rows(db.all(BY_NUMBER, {"job_id": job_id, "attempt_no": attempt_no}))
    return rows[0] if rows else None


def is_lease(row: "Row") -> bool:
    """Whether the attempt was handed out for a time instead of run as a process: it has no output files."""
    return row["lease_expires_at"] is not None


def paths(spool: Spool, row: "Row") -> "tuple[str | None, str | None]":
    """The attempt's stdout and stderr files; None for a lease, which has none."""
    if is_lease(row):
        return None, None
    job_id, attempt_no = int(row["job_id"]), int(row["attempt_no"])
    return spool.stream(job_id, attempt_no, "stdout"), spool.stream(job_id, attempt_no, "stderr")


def ending(row: "Row") -> "Row | None":
    """What keeps the attempt from ending, null unless its tree could not be ended (SPEC 5)."""
    if row["ending_since"] is None:
        return None
    pids = [int(word) for word in str(row["ending_pids"] or "").split(",") if word.isdigit()]
    return {"since": row["ending_since"], "pids": pids, "why": row["ending_why"]}


def to_attempt(spool: Spool, row: "Row") -> "Row":
    """The attempt of `show` (SPEC 3) from a row."""
    stdout, stderr = paths(spool, row)
    return {
        "attempt_no": row["attempt_no"],
        "state": row["state"],
        "worker_id": row["worker_label"],
        "worker_pid": row["worker_pid"],
        "pid": row["pid"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "exit_code": row["exit_code"],
        "signal": row["signal"],
        "error": row["error"],
        "failure_reason": row["failure_reason"],
        "stdout_path": stdout,
        "stderr_path": stderr,
        "lease_expires_at": row["lease_expires_at"],
    }
