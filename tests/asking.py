"""Requests to a running job, `cancel` and `retry --force` alike: the call, its caller, the worker that owns
the job, and what the job must have become.
"""

from __future__ import annotations

import pytest
from looking import requested, told
from support import wait_until
from workers import scripted

FLAGS = {"cancel": ("--running", "--yes"), "retry": ("--force",)}
VERBS = tuple(FLAGS)
REQUEST = {"cancel": "cancel", "retry": "requeue"}
EVENT = {"cancel": "canceled", "retry": "retried"}
AFTERWARDS = {"cancel": "canceled", "retry": "queued"}


def soak(*values):
    """The rest of a matrix, for those who have the time."""
    return pytest.param(*values, marks=pytest.mark.soak)


# A caller that leaves all to the owner, and waits for the end of a tree however slow the machine is.
PATIENT = {"SILENT_AFTER": 60, "BEYOND_GRACE": 30, "TO_TELL": 20}
# One that waits as long, and does what an owner that is silent for a second does not.
LASTING = PATIENT | {"SILENT_AFTER": 1}


def limited(limits):
    """The program of a caller with these limits in place of those of spoolctl.work.pursuit, in seconds."""
    changes = "; ".join(f"pursuit.{name} = {value}" for name, value in limits.items())
    return f"from spoolctl.work import pursuit; {changes}; from spoolctl.__main__ import main; main()"


def ask(spool, verb, job, *more, limits=None):
    """The call, as a process; with `limits` of its own."""
    words = (verb, "--json", str(job), *FLAGS[verb], *more)
    return scripted(spool, limited(limits), *words) if limits else spool.start(*words)


def asked(spool, verb, job, limits=None):
    """The call, its request stored: the caller waits."""
    caller = ask(spool, verb, job, limits=limits)
    wait_until(lambda: requested(spool, job)[0] == REQUEST[verb], 20, "the request")
    return caller


def seen(spool, job):
    """Wait until the owner has seen the request."""
    wait_until(lambda: requested(spool, job)[1], 20, "the owner's stamp")


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
