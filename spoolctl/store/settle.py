"""Every way out of `running`, in one place (SPEC 4, 5, 6).

Each is guarded by the attempt still being the running one, and each looks at the job's request in its
own transaction: cancel wins over any outcome, requeue gives a fresh budget. A result whose guard does
not hold is dropped: the job belongs to somebody else.
"""

import os

from ..contract.backoff import delay
from ..contract.limits import ERROR_MAX
from . import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from .db import Row

END_ATTEMPT_IF_RUNNING = """
UPDATE attempts SET state = :state, finished_at = :ended_at, exit_code = :exit_code, signal = :signal,
  error = :error, failure_reason = :reason, ending_since = NULL, ending_pids = NULL, ending_why = NULL
WHERE job_id = :job_id AND attempt_no = :attempt_no AND state = 'running'
  AND EXISTS (SELECT 1 FROM jobs WHERE id = :job_id AND state = 'running' AND attempt_no = :attempt_no)
"""
BUDGET = """
SELECT attempts, crashes, max_retries, max_crashes, backoff_base, backoff_factor, backoff_max,
  backoff_jitter, request, request_detail
FROM jobs WHERE id = :job_id
"""
LEAVE_RUNNING_IF_OURS = """
UPDATE jobs SET state = :next, owner = NULL, attempts = :attempts, crashes = :crashes,
  next_run_at = coalesce(:next_run_at, next_run_at), finished_at = :finished_at,
  request = NULL, request_detail = NULL, requested_at = NULL, request_seen_at = NULL,
  last_exit_code = :last_exit_code, last_signal = :last_signal, last_error = :last_error,
  last_failure_reason = :last_reason
WHERE id = :job_id AND state = 'running' AND attempt_no = :attempt_no
"""

# The common way out, in one step: a success that nobody asked anything of.
SUCCEED_IF_OURS_AND_UNASKED = """
UPDATE jobs SET state = 'done', owner = NULL, finished_at = :ended_at, last_exit_code = :exit_code,
  last_signal = NULL, last_error = NULL, last_failure_reason = NULL
WHERE id = :job_id AND state = 'running' AND attempt_no = :attempt_no AND request IS NULL
"""
END_ATTEMPT = END_ATTEMPT_IF_RUNNING[: END_ATTEMPT_IF_RUNNING.index("  AND EXISTS")]

MARK_STUCK_IF_RUNNING = """
UPDATE attempts SET ending_since = :now, ending_pids = :pids, ending_why = :why
WHERE job_id = :job_id AND attempt_no = :attempt_no AND state = 'running' AND ending_since IS NULL
"""

# What an outcome costs: nothing, a retry, or a crash.
FREE, FAILURE, CRASH = "free", "failure", "crash"


class Outcome:
    """How an attempt ended. `state`, `reason` and `error` are the attempt's; `event` tells it, None when
    the request that ended it is the whole story. `ended_at`: epoch seconds, None for the moment of record."""

    __slots__ = ("attempt_no", "cost", "detail", "ended_at", "error", "event", "exit_code", "job_id",
                 "reason", "signal", "state", "worker_id")  # fmt: skip

    def __init__(
        self,
        job_id: int,
        attempt_no: int,
        state: str,
        event: "str | None",
        cost: str = FREE,
        reason: "str | None" = None,
        error: "str | None" = None,
        exit_code: "int | None" = None,
        signal: "str | None" = None,
        detail: "str | None" = None,
        worker_id: "str | None" = None,
        ended_at: "float | None" = None,
    ) -> None:
        self.job_id = job_id
        self.attempt_no = attempt_no
        self.state = state
        self.event = event
        self.cost = cost
        self.reason = reason
        self.error = error[:ERROR_MAX] if error else error
        self.exit_code = exit_code
        self.signal = signal
        self.detail = detail
        self.worker_id = worker_id
        self.ended_at = ended_at


def settle(conn: "sqlite3.Connection", outcome: Outcome, now: float) -> "str | None":
    """End the attempt and decide the job's next state, inside the caller's transaction.

    Returns that state, or None when the attempt was not the running one any more.
    """
    ended = {
        "job_id": outcome.job_id,
        "attempt_no": outcome.attempt_no,
        "state": outcome.state,
        "now": now,
        "ended_at": now if outcome.ended_at is None else outcome.ended_at,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "error": outcome.error,
        "reason": outcome.reason,
    }
    if outcome.state == "succeeded" and conn.execute(SUCCEED_IF_OURS_AND_UNASKED, ended).rowcount:
        conn.execute(END_ATTEMPT, ended)
        events.append(conn, outcome.job_id, now, "succeeded", outcome.worker_id, outcome.detail)
        return "done"
    if conn.execute(END_ATTEMPT_IF_RUNNING, ended).rowcount == 0:
        return None
    change, told = _decided(conn.execute(BUDGET, ended).fetchone(), outcome, now)
    conn.execute(LEAVE_RUNNING_IF_OURS, {**ended, **change})
    for event, detail in told:
        events.append(conn, outcome.job_id, now, event, outcome.worker_id, detail)
    return str(change["next"])


def _decided(
    budget: "tuple[Any, ...]", outcome: Outcome, now: float
) -> "tuple[Row, list[tuple[str, str | None]]]":
    """(what changes in the job's row, events to tell): requests first, then the budget."""
    attempts, crashes, max_retries, max_crashes, base, factor, most, jitter, request, asked = budget
    ended_at = now if outcome.ended_at is None else outcome.ended_at
    attempts += outcome.cost != FREE
    crashes += outcome.cost == CRASH
    change = {
        "next": "queued",
        "attempts": attempts,
        "crashes": crashes,
        "next_run_at": now,
        "finished_at": None,
        "last_exit_code": outcome.exit_code,
        "last_signal": outcome.signal,
        "last_error": outcome.error,
        "last_reason": outcome.reason,
    }
    told = [(outcome.event, outcome.detail)] if outcome.event else []
    if request == "cancel":
        change.update(next="canceled", finished_at=ended_at, next_run_at=None)
        told.append(("canceled", asked))
    elif request == "requeue":
        change.update(
            attempts=0, crashes=0, last_exit_code=None, last_signal=None, last_error=None, last_reason=None
        )
        told.append(("retried", asked))
    elif outcome.state == "succeeded":
        change.update(next="done", finished_at=ended_at, next_run_at=None)
    elif outcome.cost == FREE:
        pass  # interrupted: queued at once, no budget spent
    else:
        try:
            if outcome.cost == FAILURE:
                again = attempts - crashes <= max_retries
            else:
                again = max_crashes is None or crashes <= max_crashes
            draw = int.from_bytes(os.urandom(4), "big") / 2**32
            wait = delay(attempts, base, factor, most, jitter, draw)
        except TypeError:  # a damaged row has no policy to go by, and must not stop its worker
            again, wait = False, 0.0
        if again:
            change["next_run_at"] = round(now + wait, 3)
        else:
            change.update(next="dead", finished_at=ended_at, next_run_at=None)
            told.append(("dead", None))
    return change, told


def mark_stuck(
    conn: "sqlite3.Connection",
    job_id: int,
    attempt_no: int,
    pids: "list[int]",
    why: str,
    worker_id: str,
    now: float,
) -> None:
    """Show that the attempt's tree cannot be ended, inside the caller's transaction; told once, whoever
    else finds it so after us."""
    listed = ",".join(map(str, pids))
    values = {"job_id": job_id, "attempt_no": attempt_no, "pids": listed, "why": why, "now": now}
    if conn.execute(MARK_STUCK_IF_RUNNING, values).rowcount:
        events.append(conn, job_id, now, "stuck", worker_id, f"pids {listed}: {why}")
