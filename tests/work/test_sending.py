"""SPEC 5: what is never signalled is refused in one place, whoever asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support import wait_until

from spoolctl.work import proc, signals

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


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
