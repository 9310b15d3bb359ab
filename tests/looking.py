"""What a test looks at in a queue: rows, events, attempts, and what its jobs wrote down. Where a `queue` is
asked for, anything with `show` will do: a Spool, a Person, one whose clock is off.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager

from support import wait_until

from spoolctl import paths
from spoolctl.store.open import open_writer

# --- the database -----------------------------------------------------------------------------------------


@contextmanager
def opened(spool):
    """A connection of the store's own, in this process."""
    db = open_writer(paths.Spool(str(spool.db), "flag"))
    try:
        yield db
    finally:
        db.close()


def rows(spool, sql):
    with closing(sqlite3.connect(spool.db, timeout=20)) as db:
        return db.execute(sql).fetchall()


def change(spool, sql, values=()):
    """Write behind the tool's back, as far as the schema lets anybody."""
    with closing(sqlite3.connect(spool.db, timeout=20)) as db, db:
        db.execute(sql, values)


def damage(spool, sql, values=()):
    """Write what the checks of the schema forbid: damage that no statement of ours can do."""
    with closing(sqlite3.connect(spool.db, timeout=20)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute(sql, values)


# --- jobs and attempts ------------------------------------------------------------------------------------


def last(queue, job_id):
    return queue.show(job_id)["attempts"][-1]


def ended(attempt):
    return attempt["state"], attempt["failure_reason"], attempt["error"]


def started(spool, job_id, says=b"", number=None):
    """Wait until an attempt's leader runs, is written down, and has printed what it says; its pid. The
    attempt is the last one, or the one of that number.
    """

    def there():
        shown = spool.show(job_id)
        attempts = [one for one in shown["attempts"] if number in (None, one["attempt_no"])]
        return shown["job"]["state"] == "running" and attempts and attempts[-1]["pid"] and attempts[-1]

    attempt = wait_until(there, 30, f"attempt {number or ''} of job {job_id} to start")
    if says:
        wait_until(
            lambda: printed(spool, job_id, attempt["attempt_no"]).startswith(says), 20,
            f"{says!r} from job {job_id}",
        )  # fmt: skip
    return attempt["pid"]


def begun(spool, job_id):
    """(pid of the worker, pid of the leader) as their own namespace has them, once both are written down."""
    attempt = wait_until(
        lambda: (all_ := spool.show(job_id)["attempts"]) and all_[-1]["pid"] and all_[-1], 20
    )
    return attempt["worker_pid"], attempt["pid"]


def requested(spool, job_id):
    """(request, when the owner saw it) of a running job."""
    return rows(spool, f"SELECT request, request_seen_at FROM jobs WHERE id = {job_id}")[0]


def failures(spool, *jobs):
    """The error texts of jobs that could not be started; all that goes with them is checked."""
    texts = []
    for job_id in jobs:
        attempt = last(spool, job_id)
        assert (attempt["state"], attempt["failure_reason"]) == ("failed", "spawn_failed"), attempt
        assert (attempt["exit_code"], attempt["signal"], attempt["pid"]) == (None, None, None)
        assert spool.show(job_id)["job"]["last_error"] == attempt["error"]
        assert ("failed", attempt["error"]) in story(spool, job_id)
        texts.append(attempt["error"])
    return texts


# --- the ledger -------------------------------------------------------------------------------------------


def story(queue, job_id):
    """(event, detail) in the order of the ledger."""
    return [(event["event"], event["detail"]) for event in queue.show(job_id)["events"]]


def told(queue, job_id):
    return [event for event, _ in story(queue, job_id)]


def details(queue, job_id, event):
    return [detail for name, detail in story(queue, job_id) if name == event]


# --- what jobs wrote down ---------------------------------------------------------------------------------


def printed(spool, job_id, attempt_no=1, stream="stdout"):
    return (spool.output / str(job_id) / str(attempt_no) / stream).read_bytes()


def log_of(spool):
    """The words of the file `log`, to which the jobs of a test append."""
    path = spool.path / "log"
    return path.read_text().split() if path.exists() else []


def pid_in(path):
    """The process number that a job has written to a file."""
    return int(wait_until(lambda: path.exists() and path.read_text().strip(), 20, f"{path}"))
