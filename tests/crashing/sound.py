"""What must hold after any crash, and what must be left when a new worker has finished."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from support import processes_of, wait_until

from .case import Case

NOTHING = {
    "counts differ from the rows": """
        SELECT queue, kind, state, count(*) FROM jobs GROUP BY queue, kind, state
        EXCEPT SELECT queue, kind, state, n FROM counts""",
    "counts of no rows": """
        SELECT queue, kind, state, n FROM counts WHERE n <> 0
        EXCEPT SELECT queue, kind, state, count(*) FROM jobs GROUP BY queue, kind, state""",
    "running without its attempt": """
        SELECT id FROM jobs j WHERE state = 'running' AND NOT EXISTS (SELECT 1 FROM attempts a
          WHERE a.job_id = j.id AND a.attempt_no = j.attempt_no AND a.state = 'running'
          AND a.worker = j.owner)""",
    "running without a worker": """
        SELECT id FROM jobs WHERE state = 'running' AND owner NOT IN (SELECT instance FROM workers)""",
    "a running attempt of a job that is not": """
        SELECT job_id, attempt_no FROM attempts a WHERE state = 'running' AND NOT EXISTS (
          SELECT 1 FROM jobs j WHERE j.id = a.job_id AND j.state = 'running'
          AND j.attempt_no = a.attempt_no)""",
    "attempts are not numbered through": """
        SELECT id, attempt_no FROM jobs j
        WHERE attempt_no <> (SELECT count(*) FROM attempts WHERE job_id = j.id)
          OR attempt_no <> (SELECT coalesce(max(attempt_no), 0) FROM attempts WHERE job_id = j.id)""",
    "terminal and finished disagree": """
        SELECT id FROM jobs WHERE (state IN ('done', 'dead', 'canceled')) <> (finished_at IS NOT NULL)""",
    "an owner of what does not run": "SELECT id FROM jobs WHERE (state = 'running') <> (owner IS NOT NULL)",
    "what belongs to no job": """
        SELECT 'attempt', job_id FROM attempts WHERE job_id NOT IN (SELECT id FROM jobs)
        UNION ALL SELECT 'event', job_id FROM job_events WHERE job_id NOT IN (SELECT id FROM jobs)
        UNION ALL SELECT 'tag', job_id FROM job_tags WHERE job_id NOT IN (SELECT id FROM jobs)""",
    "marked as pruned, but there": "SELECT job_id FROM pruned WHERE job_id IN (SELECT id FROM jobs)",
}

OUTCOMES = ("succeeded", "failed", "timed_out", "reaped", "interrupted")


def sound(case: Case) -> None:
    """The file is whole and its rows agree with each other and with the ledger."""
    with closing(sqlite3.connect(case.db, timeout=20, isolation_level=None)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return  # still to be made
        db.execute("BEGIN")
        for wrong, sql in NOTHING.items():
            found = db.execute(sql).fetchall()
            assert not found, f"{wrong}: {found}"
        told: dict[int, list[str]] = {}
        for job_id, event in db.execute("SELECT job_id, event FROM job_events ORDER BY id"):
            told.setdefault(job_id, []).append(event)
        for job_id, state, number in db.execute("SELECT id, state, attempt_no FROM jobs"):
            events = told.get(job_id, [])
            assert explained(events) == state, f"job {job_id} is {state}, but {events}"
            assert events.count("claimed") == number, f"job {job_id}: {number} attempts, but {events}"


def explained(events: list[str]) -> str:
    """The state that a job is in after these events. Raises AssertionError for an order that cannot be."""
    state = ""
    before = ""
    for event in events:
        legal = {
            "added": state == "",
            "claimed": state == "queued",
            "succeeded": state == "running",
            "failed": state == "running",
            "timed_out": state == "running",
            "reaped": state == "running",
            "interrupted": state == "running",
            "stuck": state == "running",
            "dead": before in ("failed", "timed_out", "reaped"),
            # Asked of a running attempt, it follows whatever outcome that had.
            "canceled": state in ("queued", "running") or before in OUTCOMES,
            "retried": state in ("queued", "running", "dead", "canceled") or before in OUTCOMES,
        }[event]
        assert legal, f"{event} after {before or 'nothing'}: {events}"
        if event in ("added", "failed", "timed_out", "reaped", "interrupted", "retried"):
            state = "queued"
        elif event != "stuck":
            state = {"claimed": "running", "succeeded": "done"}.get(event, event)
        before = event
    return state


def settled(case: Case) -> None:
    """A worker has finished what there was, and nothing is left over."""
    states = case.states()
    left = {job_id: state for job_id, state in states.items() if state not in ("done", "dead", "canceled")}
    if left:
        events = "SELECT event, detail FROM job_events WHERE job_id = ? ORDER BY id"
        raise AssertionError(f"not finished: {left}, {[case.rows(events, job_id) for job_id in left]}")
    wait_until(lambda: not processes_of(case.folder, case.db), 10, "the end of every process of a job")
    for job_id in states:
        assert "overlap" not in case.log(job_id), f"job {job_id} ran twice at once"
        ran = len(case.rows("SELECT 1 FROM attempts WHERE job_id = ?", job_id))
        assert len(case.log(job_id)) <= ran, f"job {job_id} ran more often than it was claimed"
    assert case.rows("SELECT * FROM workers") == [], "a dead worker's row stays"
    workers = case.db.parent / "workers"
    kept = sorted(os.listdir(workers)) if workers.exists() else []
    assert not kept, f"stale files of workers: {kept}"
    output = case.db.parent / "output"
    folders = set(os.listdir(output)) if output.exists() else set()
    assert folders <= {str(job_id) for job_id in states}, "output of no job"
