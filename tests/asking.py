"""Requests to a running job, `cancel` and `retry --force` alike: the call, its caller, the worker that owns
the job, and what the job must have become.
"""

from __future__ import annotations

import pytest
from looking import requested, told
from support import wait_until

FLAGS = {"cancel": ("--running", "--yes"), "retry": ("--force",)}
VERBS = tuple(FLAGS)
REQUEST = {"cancel": "cancel", "retry": "requeue"}
EVENT = {"cancel": "canceled", "retry": "retried"}
AFTERWARDS = {"cancel": "canceled", "retry": "queued"}


def soak(*values):
    """The rest of a matrix, for those who have the time."""
    return pytest.param(*values, marks=pytest.mark.soak)


def ask(spool, verb, job, *more):
    """The call, as a process."""
    return spool.start(verb, "--json", str(job), *FLAGS[verb], *more)


def asked(spool, verb, job):
    """The call, its request stored: the caller waits."""
    caller = ask(spool, verb, job)
    wait_until(lambda: requested(spool, job)[0] == REQUEST[verb], 10, "the request")
    return caller


def seen(spool, job):
    """Wait until the owner has seen the request."""
    wait_until(lambda: requested(spool, job)[1], 10, "the owner's stamp")


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
