"""SPEC 5: nobody but a member of the attempt is ever signalled: not who was given a member's number since,
and not ourselves. What is refused is refused in one place; and numbers come again on purpose, in a small pid
namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from looking import begun, pid_in, told
from support import alive, wait_until
from workers import GO

from spoolctl.work import proc, signals

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


# --- the one place that signals ---------------------------------------------------------------------------


@pytest.fixture
def sent(monkeypatch):
    """What would have been sent, and to whom; nothing is."""
    log = []
    monkeypatch.setattr(os, "kill", lambda *call: log.append(("kill", *call)))
    monkeypatch.setattr(os, "killpg", lambda *call: log.append(("killpg", *call)))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *call: log.append(("pidfd", *call)))
    return log


@pytest.fixture
def other():
    one = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield one
    one.kill()
    one.wait()


def under(pid):
    """A member as a scan would give it, under this number."""
    one = proc.stat(os.getpid())
    one.pid = pid
    return one


@pytest.mark.parametrize("pid", [1, 0, -1, -2])
def test_nobody_signals_the_first_process_or_numbers_that_mean_many(sent, pid):
    assert signals.to_process(under(pid), signal.SIGKILL) == signals.DENIED
    assert signals.to_group(pid, signal.SIGKILL) == signals.DENIED
    assert sent == []


def test_nobody_signals_itself_or_its_own_group(sent):
    assert signals.to_process(proc.stat(os.getpid()), signal.SIGTERM) == signals.DENIED
    assert signals.to_group(os.getpgrp(), signal.SIGTERM) == signals.DENIED
    assert sent == []


def test_a_number_that_means_another_process_by_now_is_not_signalled(other, sent):
    seen = proc.stat(other.pid)
    for start in (seen.start - 1, seen.start + 1):
        stale = proc.stat(other.pid)
        stale.start = start
        assert signals.to_process(stale, signal.SIGKILL) == signals.GONE
    assert sent == []
    assert signals.to_process(seen, signal.SIGKILL) == signals.SENT
    assert [call[0] for call in sent] == ["pidfd"]


def test_one_that_has_ended_is_gone_and_one_that_lives_is_reached(other):
    seen = proc.stat(other.pid)
    assert signals.to_process(seen, signal.SIGTERM) == signals.SENT
    wait_until(lambda: proc.stat(other.pid).gone, 20)
    assert signals.to_process(seen, signal.SIGTERM) == signals.GONE  # nobody has waited for it yet
    assert other.wait() == -signal.SIGTERM
    assert signals.to_process(seen, signal.SIGTERM) == signals.GONE
    assert signals.to_group(other.pid, signal.SIGTERM) == signals.GONE


def test_who_takes_the_number_between_the_look_and_the_signal_is_not_reached(other, sent, monkeypatch):
    """It is opened first and judged after that, so what is signalled is what was judged."""
    seen = proc.stat(other.pid)
    order = []
    opened, stat = os.pidfd_open, proc.stat
    monkeypatch.setattr(os, "pidfd_open", lambda *call: order.append("open") or opened(*call))
    monkeypatch.setattr(proc, "stat", lambda pid: order.append("judge") or stat(pid))
    assert signals.to_process(seen, signal.SIGKILL) == signals.SENT
    assert order == ["open", "judge"]


# --- numbers that come again ------------------------------------------------------------------------------

ACTORS = {
    "work": ("work", "--json", "--drain"),
    "cancel": ("cancel", "1", "--running", "--yes", "--json"),
    "retry": ("retry", "1", "--force", "--json"),
}

AFTER = {"work": "done", "cancel": "canceled", "retry": "queued"}


@pytest.mark.parametrize("how", ["plain", "leader", "session", "group"])
@pytest.mark.parametrize("actor", list(ACTORS))
def test_who_was_given_the_number_of_a_dead_leader_is_left_alone(spool, namespace, actor, how):
    job = spool.add("--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300")
    namespace.start("work", "--json")
    worker, leader = begun(spool, job)
    namespace.end(worker)
    namespace.end(leader)
    stranger = namespace.take(leader, how)
    if how == "session":
        assert namespace.stat(stranger)[3] == str(leader), "it is not in the session of that number"
    if how == "group":
        assert namespace.stat(stranger)[2] == str(leader), "it is not in the group of that number"
    answer = namespace.cli(*ACTORS[actor], check=0)
    assert answer.warnings == []
    assert namespace.alive(stranger)
    assert spool.state(job) == AFTER[actor]
    assert spool.show(job)["attempts"][0]["state"] == "abandoned"


@pytest.mark.parametrize("lock", ["its lock", "no lock"])
@pytest.mark.parametrize("how", ["plain", "leader"])
def test_who_was_given_the_number_of_a_dead_worker_is_left_alone(spool, namespace, how, lock):
    """QUALITY, case 8: the worker's death shows by its lock, and without one by its start time."""
    job = spool.add("--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300")
    namespace.start("work", "--json")
    worker, leader = begun(spool, job)
    namespace.end(worker)
    stranger = namespace.take(worker, how)
    assert stranger == worker
    if lock == "no lock":
        (spool.db.parent / "workers" / "1.lock").unlink()
    assert namespace.cli("status", "--json").data["workers"][0]["alive"] is False
    namespace.cli("work", "--json", "--drain", check=0)
    assert (namespace.alive(stranger), namespace.alive(leader)) == (True, False)
    assert (spool.state(job), told(spool, job)[2]) == ("done", "reaped")


def test_what_its_session_alone_shows_is_ended_although_the_leader_is_gone(spool):
    """The other side: no token, no lock, no parent of ours, but the very session begun for the job."""
    left = f"env -i sleep 300 >/dev/null 2>&1 & echo $! >left; {GO}"
    job = spool.add("--backoff-base", "0", "-c", f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {left}; }}")
    worker = spool.start("work", "--json")
    _, leader = begun(spool, job)
    pid = pid_in(spool.path / "left")
    worker.kill()
    worker.wait()
    (spool.path / "go").touch()
    wait_until(lambda: not alive(leader), 20)
    assert alive(pid)
    spool.work(check=0)
    assert (alive(pid), spool.state(job)) == (False, "done")
