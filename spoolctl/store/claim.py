"""Taking jobs: priority DESC, next_run_at, id; delayed rows are never stepped over (SPEC 6).

The index ends in (priority, next_run_at, id), so the lane's distinct priorities are walked from the
highest, and within one priority what is due is one range. A million delayed jobs cost two look-ups a
priority, all made by one statement. An idle look only reads; `claim` runs inside the caller's write
transaction.
"""

import os

from . import events, sqlite3
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .db import Row

_LANE = "state = 'queued' AND queue = :queue AND kind = :kind"

TOP_PRIORITY = f"SELECT priority FROM jobs WHERE {_LANE} ORDER BY priority DESC LIMIT 1"
FIRST = f"SELECT priority, next_run_at FROM jobs WHERE {_LANE} ORDER BY priority DESC, next_run_at LIMIT 1"
# The distinct priorities below one, from the highest, and at last a null. A row is made when it is asked for.
_BELOW = f"SELECT priority FROM jobs WHERE {_LANE} AND priority < {{}} ORDER BY priority DESC LIMIT 1"
WALK = f"""
WITH RECURSIVE step (priority) AS (
  SELECT ({_BELOW.format(":below")}) UNION ALL
  SELECT ({_BELOW.format("step.priority")}) FROM step WHERE step.priority IS NOT NULL)
"""
TOP = float("inf")  # the walk below it has them all, also one that was written by hand
_EARLIEST = f"""
(SELECT next_run_at FROM jobs WHERE {_LANE} AND priority = step.priority ORDER BY next_run_at LIMIT 1)
"""
EARLIEST_OF_EACH = f"{WALK} SELECT {_EARLIEST} FROM step WHERE step.priority IS NOT NULL"
NEXT_DUE_PRIORITY = f"{WALK} SELECT priority FROM step WHERE {_EARLIEST} <= :now LIMIT 1"
# What it takes to run a job.
COLUMNS = (
    "id", "queue", "argv", "payload", "cwd", "env", "captured_env", "timeout", "max_output", "keep_children",
    "attempt_no",
)  # fmt: skip
_DUE = f"""
SELECT {", ".join(COLUMNS)} FROM jobs WHERE {_LANE} AND priority = {{priority}} AND next_run_at <= :now
ORDER BY next_run_at, id LIMIT :n
"""
DUE = _DUE.format(priority=":priority")
DUE_AT_TOP = _DUE.format(priority=f"({TOP_PRIORITY})")
RUNNING_IN_LANE = "SELECT coalesce(sum(n), 0) FROM counts WHERE queue = :queue AND state = 'running'"
CLAIM_IF_QUEUED = """
UPDATE jobs SET state = 'running', owner = :owner, attempt_no = attempt_no + 1, started_at = :now
WHERE id = :id AND state = 'queued'
"""
BEGIN_ATTEMPT = """
INSERT INTO attempts (job_id, attempt_no, state, worker, worker_label, worker_pid, boot_id, pid_ns,
  began, token, started_at)
VALUES (:job_id, :attempt_no, 'running', :owner, :label, :pid, :boot_id, :pid_ns, :began, :token, :now)
"""
SET_ASIDE = """
UPDATE jobs SET state = 'dead', owner = NULL, finished_at = :now, last_exit_code = NULL, last_signal = NULL,
  last_error = :error, last_failure_reason = 'unknown'
WHERE id = :id AND state IN ('queued', 'running')
"""
RECORD_CHILD_IF_RUNNING = """
UPDATE attempts SET pid = :pid, pid_start = :pid_start, session = :session
WHERE job_id = :job_id AND attempt_no = :attempt_no AND state = 'running'
"""


def look(db: Db, queue: str, kind: str, now: float) -> "tuple[bool, float | None]":
    """(something is due, when the earliest delayed job is due). Reads only."""
    values: "Row" = {"queue": queue, "kind": kind}
    first = db.one(FIRST, values)
    if first is None:
        return False, None
    values["below"], earliest = first[0], float(first[1])
    if earliest <= now:
        return True, earliest
    others = db.execute(EARLIEST_OF_EACH, values)
    try:
        for (at,) in others:
            if at <= now:
                return True, float(at)
            earliest = min(earliest, float(at))
    finally:
        others.close()  # a walk that is left early would go on reading
    return False, earliest


def running_in_lane(db: Db, queue: str) -> int:
    found = db.one(RUNNING_IN_LANE, {"queue": queue})
    return int(found[0])  # type: ignore[index]


def claim(
    conn: sqlite3.Connection,
    db: Db,
    queue: str,
    kind: str,
    most: int,
    slots: "int | None",
    owner: "Row",
    now: float,
    began: float,
) -> "list[Row]":
    """Take up to `most` due jobs for `owner` (columns of `workers`), within the lane's `slots`.

    Returns their rows, each with its attempt's `token`.
    """
    if slots is not None:
        most = min(most, slots - running_in_lane(db, queue))
    taken: "list[Row]" = []
    if most <= 0:
        return taken
    values: "Row" = {"queue": queue, "kind": kind, "now": now, "n": most}

    def take(statement: str) -> None:
        for found in conn.execute(statement, values).fetchall():
            row = dict(zip(COLUMNS, found))
            try:
                taken.append(_take(conn, row, owner, now, began))
            except sqlite3.IntegrityError as error:
                _set_aside(conn, row, owner, now, str(error))

    take(DUE_AT_TOP)
    values["below"] = TOP
    while len(taken) < most:
        step = conn.execute(NEXT_DUE_PRIORITY, values).fetchone()
        if step is None:
            break
        values["priority"], values["n"] = step[0], most - len(taken)
        take(DUE)
        values["below"] = step[0]
    return taken


def _take(conn: sqlite3.Connection, row: "Row", owner: "Row", now: float, began: float) -> "Row":
    """Claim one due job; its row as it is after that."""
    conn.execute(CLAIM_IF_QUEUED, {"id": row["id"], "owner": owner["instance"], "now": now})
    row["attempt_no"] += 1
    row["token"] = os.urandom(16).hex()
    conn.execute(
        BEGIN_ATTEMPT,
        {
            "job_id": row["id"],
            "attempt_no": row["attempt_no"],
            "owner": owner["instance"],
            "label": owner["label"],
            "pid": owner["pid"],
            "boot_id": owner["boot_id"],
            "pid_ns": owner["pid_ns"],
            "began": began,
            "token": row["token"],
            "now": now,
        },
    )
    events.append(conn, row["id"], now, "claimed", str(owner["label"]))
    return row


def _set_aside(conn: sqlite3.Connection, row: "Row", owner: "Row", now: float, why: str) -> None:
    """A row that cannot be claimed (somebody wrote into the file by hand) must not hold up its lane."""
    error = f"the stored row cannot be run: {why}"
    conn.execute(SET_ASIDE, {"id": row["id"], "now": now, "error": error})
    events.append(conn, row["id"], now, "failed", str(owner["label"]), error)
    events.append(conn, row["id"], now, "dead", str(owner["label"]))


def record_children(conn: sqlite3.Connection, children: "list[Row]") -> "list[Row]":
    """Write down the leaders of new attempts ({job_id, attempt_no, pid, pid_start, session}), inside the
    caller's transaction. Returns those whose attempt is not running any more."""
    return [child for child in children if conn.execute(RECORD_CHILD_IF_RUNNING, child).rowcount == 0]
