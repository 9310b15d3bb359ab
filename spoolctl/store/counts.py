"""Numbers of jobs, and the few jobs that `status` shows; none of it grows with the number of jobs.

Triggers keep `counts`. How many jobs are scheduled is read off the index of due jobs, whose distinct
priorities are walked and within which the delayed rows are one range, counted up to a cap.
"""

from ..contract.limits import SCHEDULED_CAP
from ..contract.states import JOB_STATES
from . import attempts, claim
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .db import Row

FEW = 100  # rows or priorities that are counted to see whether they are few

ALL = "SELECT queue, kind, state, n FROM counts WHERE n > 0 ORDER BY queue, kind, state"
PRIORITIES = f"""{claim.WALK}
SELECT count(*) FROM (SELECT 1 FROM step WHERE step.priority IS NOT NULL LIMIT :most)
"""
_NUMBER = f"""{claim.WALK}
SELECT count(*) FROM (
  SELECT 1 FROM step CROSS JOIN jobs j INDEXED BY jobs_due
  WHERE j.state = 'queued' AND j.queue = :queue AND j.kind = :kind AND j.priority = step.priority
    AND j.next_run_at {{}} :now LIMIT :most)
"""
DUE = _NUMBER.format("<=")
SCHEDULED = _NUMBER.format(">")
RUNNING_BY_OWNER = """
SELECT owner, count(*) FROM jobs INDEXED BY jobs_running WHERE state = 'running' GROUP BY owner ORDER BY owner
"""
# A payload may have megabytes, of which a line is shown.
_SHOWN = """
id, kind, queue, argv, substr(payload, 1, 400) AS payload, owner, attempts, crashes, last_error, finished_at,
attempt_no
"""
_NAMES = (
    "id", "kind", "queue", "argv", "payload", "owner", "attempts", "crashes", "last_error", "finished_at",
    "attempt_no",
)  # fmt: skip
RUNNING = f"""
SELECT {_SHOWN} FROM jobs WHERE id IN (
  SELECT id FROM jobs INDEXED BY jobs_running WHERE state = 'running' ORDER BY id LIMIT :limit)
ORDER BY id
"""
DEAD = f"""
SELECT {_SHOWN} FROM jobs INDEXED BY jobs_dead WHERE state = 'dead'
ORDER BY finished_at DESC, id DESC LIMIT :limit
"""


def zeros() -> "dict[str, int]":
    return dict.fromkeys(sorted(JOB_STATES), 0)


def by_lane(db: Db) -> "tuple[dict[str, dict[str, int]], dict[tuple[str, str], int]]":
    """({lane: {state: n}} of the lanes that hold jobs, {(lane, kind): queued ones})."""
    lanes: "dict[str, dict[str, int]]" = {}
    queued: "dict[tuple[str, str], int]" = {}
    for lane, kind, state, n in db.all(ALL):
        lanes.setdefault(str(lane), zeros())[str(state)] += n
        if state == "queued":
            queued[str(lane), str(kind)] = n
    return lanes, queued


def scheduled(db: Db, lane: str, kind: str, queued: int, now: float) -> int:
    """How many of the `queued` jobs are for later: exact up to SCHEDULED_CAP, else any number above it.

    Whichever are few, those for later or those that are due, are counted.
    """
    values: "Row" = {"queue": lane, "kind": kind, "now": now, "below": claim.TOP, "most": FEW}

    def number(statement: str) -> int:
        return int(db.one(statement, values)[0])  # type: ignore[index]

    later = number(SCHEDULED)
    if later < FEW:
        return later
    if number(PRIORITIES) < FEW:  # each is looked at, also where nothing is due
        due = number(DUE)
        if due < FEW:
            return queued - due
    values["most"] = SCHEDULED_CAP + 1
    return number(SCHEDULED)


def running_by_owner(db: Db) -> "dict[int, int]":
    """{worker instance: jobs it runs}; grows only with what runs at this moment."""
    return dict(db.all(RUNNING_BY_OWNER))


def running(db: Db, limit: int) -> "list[tuple[Row, Row]]":
    """(what `status` shows of a job, row of the running attempt) of the oldest running jobs."""
    return _pairs(db, db.all(RUNNING, {"limit": limit}))


def recently_dead(db: Db, limit: int) -> "list[tuple[Row, Row]]":
    """(what `status` shows of a job, row of its last attempt) of the jobs that died last."""
    return _pairs(db, db.all(DEAD, {"limit": limit}))


def _pairs(db: Db, found: "list[tuple[Any, ...]]") -> "list[tuple[Row, Row]]":
    pairs = []
    for values in found:
        job = dict(zip(_NAMES, values, strict=True))
        attempt = attempts.get(db, job["id"], job["attempt_no"])
        if attempt is not None:
            pairs.append((job, attempt))
    return pairs
