"""SPEC 5 and 6: a request to a job whose tree cannot be ended, and what `--unverified` does about it."""

from __future__ import annotations

import array
import signal
import socket
import sys
import time
from contextlib import closing, contextmanager

import pytest
from recovering import (
    AFTERWARDS,
    GO,
    REQUEST,
    ask,
    details,
    kill,
    owner,
    requested,
    settled,
    soak,
    started,
    stop,
    told,
)
from support import alive, finish, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


@contextmanager
def unending(spool, *flags):
    """A job whose tree is never proven gone: its capture file, and the lock with it, is here. (job, free)."""
    give = (
        "import array, socket; s = socket.socket(socket.AF_UNIX); s.connect('s'); "
        "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))]); "
    )
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(spool.path / "s"))
        listener.listen()
        listener.settimeout(20)
        script = (
            f'[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec {sys.executable} -c "{give} import time; time.sleep(300)"'
        )
        job = spool.add("--max-retries", "0", *flags, "-c", f"{script}; {GO}")
        yield job, lambda: _received(listener)


def _received(listener):
    theirs, _ = listener.accept()
    with closing(theirs):
        _, sent, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    return open(array.array("i", sent[0][2])[0], "rb")


@pytest.mark.parametrize(
    ("fate", "verb"),
    [
        ("alive", "cancel"),
        ("dead", "retry"),
        soak("alive", "retry"),
        soak("stopped", "retry"),
        soak("stopped", "cancel"),
        soak("dead", "cancel"),
    ],
)
def test_what_cannot_be_ended_is_answered_so_and_followed_through_later(spool, verb, fate):
    with unending(spool) as (job, receive):
        worker = owner(spool, "--grace", "0.2")
        with receive():
            pid = started(spool, job)
            if fate != "alive":
                stop(worker)
            if fate == "dead":
                kill(worker)
            began = time.monotonic()
            answer = finish(ask(spool, verb, job), check=0)
            assert time.monotonic() - began >= 2.2
            assert (answer.data["state"], answer.warnings) == ("running", ["KILL_ASYNC"])
            assert not alive(pid)
            assert requested(spool, job)[0] == REQUEST[verb]
            if fate == "stopped":
                worker.send_signal(signal.SIGCONT)
            if fate != "dead":
                wait_until(lambda: spool.show(job)["job"]["ending"], 20)
                assert told(spool, job) == ["added", "claimed", "stuck"]
        if fate == "dead":
            spool.start("work", "--queue", "elsewhere")
            spool.wait_for(job, AFTERWARDS[verb])
            settled(spool, verb, job, "reaped")
        else:
            assert worker.wait(20) == 0
            # To an owner that did not see the request, the leader ended by itself.
            settled(spool, verb, job, "stuck", *(["failed"] if fate == "stopped" else []))


@pytest.mark.parametrize("fate", ["alive", "dead", soak("stopped")])
def test_force_unverified_goes_on_although_the_old_tree_cannot_be_ended(spool, fate):
    with unending(spool) as (job, receive):
        with open(spool.path / "lines", "wb") as lines:
            flags = ("-j", "2", "--grace", "0.2", "--poll-interval", "0.1")
            worker = spool.start("work", *flags, stderr=lines)
        with receive():
            started(spool, job)
            if fate == "alive":
                assert finish(ask(spool, "retry", job), check=0).warnings == ["KILL_ASYNC"]
                wait_until(lambda: spool.show(job)["job"]["ending"], 20)
            else:
                stop(worker)
            if fate == "dead":
                kill(worker)
            answer = finish(ask(spool, "retry", job, "--unverified"), check=0)
            assert (answer.data["state"], answer.warnings) == ("queued", ["UNVERIFIABLE_OWNER"])
            assert details(spool, job, "retried") == ["forced, unverified"]
            if fate == "dead":
                worker = spool.start("work", *flags)
            else:
                worker.send_signal(signal.SIGCONT)
            started(spool, job, number=2)
            if fate == "alive":  # the stuck one keeps its slot
                waiting = spool.add("--", "true")
                spool.add("--queue", "other", "--", "true")
                spool.work("--queue", "other", check=0)
                assert spool.state(waiting) == "queued"
        (spool.path / "go").touch()
        spool.wait_for(job, "done")
        if fate == "alive":
            spool.wait_for(waiting, "done")
        if fate != "dead":
            line = f"spoolctl: job {job} attempt 1 is not ours any more: result dropped"
            wait_until(lambda: line in (spool.path / "lines").read_text().splitlines(), 10)
