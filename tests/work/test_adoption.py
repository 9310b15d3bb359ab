"""What is adopted while several attempts run, and whose it is."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from looking import pid_in, started
from support import alive
from workers import GO, scripted

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and a subreaper")


# A worker whose first helper is out of time before it has told anything.
HASTY = """
from spoolctl.work import probe
begin, program = probe.Probe.__init__, probe._PROGRAM
def hasty(self, *words, **more):
    probe._PROGRAM = "import time; time.sleep(60)"
    begin(self, *words, **more)
    self.deadline = 0
    probe.Probe.__init__, probe._PROGRAM = begin, program
probe.Probe.__init__ = hasty
from spoolctl.__main__ import main
main()
"""


def test_a_kept_child_is_asked_for_again_when_the_helper_gave_no_answer(spool):
    other = spool.add("-c", GO)
    worker = scripted(spool, HASTY, "work", "--json", "-j", "2", "--grace", "0.2")
    started(spool, other)
    away = "setsid sh -c 'echo $$ >pid; exec sleep 300' >/dev/null 2>&1 &"
    kept = spool.add("--keep-children", "-c", f"{away} until [ -s pid ]; do sleep 0.02; done")
    spool.wait_for(kept, "done")
    pid = pid_in(spool.path / "pid")
    (spool.path / "go").touch()
    spool.wait_for(other, "done")
    assert alive(pid)
    assert worker.poll() is None
    os.kill(pid, signal.SIGKILL)
    spool.leaves_processes()
