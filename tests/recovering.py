"""What tests of recovery share: workers that are stopped or killed at a chosen point, and looks at what
became of their jobs.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest
from support import clean_env, wait_until

from spoolctl import paths
from spoolctl.store.open import open_writer

GO = "until [ -e go ]; do sleep 0.02; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.02; done"
STAYS = "trap '' TERM; echo up; until [ -e free ]; do sleep 0.02; done"  # whatever the signal, until then
# Every process of an attempt holds descriptor 9, and with it the lock: whoever starts too early says so.
ALONE = "exec 9>>alone; flock -n 9 || { echo overlap >>log; exit 0; }; echo start >>log; "

# A call that sends itself a signal the first time it passes a named point.
HOOKED = """
import os, sys
from spoolctl import hooks
point, number = sys.argv.pop(1), int(sys.argv.pop(1))
def act():
    del hooks.AT[point]
    os.kill(os.getpid(), number)
hooks.AT[point] = act
from spoolctl.__main__ import main
main()
"""


def hooked(spool, point, number, *tokens):
    """`spoolctl TOKENS` with a signal to itself at this point."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOOKED, point, str(int(number)), *tokens],
        cwd=spool.path, env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    spool._started.append(process)
    return process


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


def change(spool, sql):
    with closing(sqlite3.connect(spool.db, timeout=20)) as db, db:
        db.execute(sql)


def last(spool, job_id):
    return spool.show(job_id)["attempts"][-1]


def ended(attempt):
    return attempt["state"], attempt["failure_reason"], attempt["error"]


def told(spool, job_id):
    return [event["event"] for event in spool.show(job_id)["events"]]


def details(spool, job_id, event):
    return [one["detail"] for one in spool.show(job_id)["events"] if one["event"] == event]


def started(spool, job_id, says=b"", number=1):
    """Wait until this attempt's leader runs, is written down, and has printed what it says; its pid."""

    def there():
        attempts = [one for one in spool.show(job_id)["attempts"] if one["attempt_no"] == number]
        return attempts and attempts[0]["pid"]

    pid = wait_until(there, 20, f"attempt {number} of job {job_id} to start")
    out = spool.output / str(job_id) / str(number) / "stdout"
    wait_until(lambda: out.read_bytes().startswith(says), 20, f"{says!r} from job {job_id}")
    return pid


def log_of(spool):
    path = spool.path / "log"
    return path.read_text().split() if path.exists() else []


def requested(spool, job_id):
    """(request, when the owner saw it) of a running job."""
    return rows(spool, f"SELECT request, request_seen_at FROM jobs WHERE id = {job_id}")[0]


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(20)


def state_of(pid):
    """The letter of a process in /proc: T when it is stopped."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def stop(process):
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", 10)


@contextmanager
def stopped(process):
    """The process does not run inside the block."""
    stop(process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def children_of(pid):
    """The pids of a process's children, zombies too."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found.update(map(int, file.read().split()))
    return found


# --- requests ---------------------------------------------------------------------------------------------

# What is asked of a running job, by the verb that asks it.
CALLS = {"cancel": ("cancel", "--running", "--yes"), "retry": ("retry", "--force")}
VERBS = tuple(CALLS)
REQUEST = {"cancel": "cancel", "retry": "requeue"}
EVENT = {"cancel": "canceled", "retry": "retried"}
AFTERWARDS = {"cancel": "canceled", "retry": "queued"}


def soak(*values):
    """The rest of a matrix, for those who have the time."""
    return pytest.param(*values, marks=pytest.mark.soak)


def ask(spool, verb, job, *more):
    """The call, as a process."""
    word, *flags = CALLS[verb]
    return spool.start(word, "--json", str(job), *flags, *more)


def asked(spool, verb, job):
    """The call, its request stored: the caller waits."""
    caller = ask(spool, verb, job)
    wait_until(lambda: requested(spool, job)[0] == REQUEST[verb], 10, "the request")
    return caller


def owner(spool, *flags):
    """A worker that runs one attempt, so that what is queued again stays visible as queued."""
    return spool.start("work", "--json", "--max-jobs", "1", "--poll-interval", "0.1", *flags)


def settled(spool, verb, job, *own):
    """The job is what was asked for, once, after events of the attempt's own."""
    shown = spool.show(job)["job"]
    assert shown["state"] == AFTERWARDS[verb]
    assert told(spool, job) == ["added", "claimed", *own, EVENT[verb]]
    assert requested(spool, job) == (None, None)
    if verb == "retry":
        assert (shown["attempts"], shown["crashes"], shown["last_error"]) == (0, 0, None)
        assert shown["last_failure_reason"] is None
