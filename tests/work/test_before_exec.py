"""QUALITY, case 33: a worker that dies between fork and exec leaves a child that may yet be the command."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from looking import log_of, told
from support import alive, signal_quietly, wait_until
from workers import ALONE, children_of, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

DELAY = 3  # seconds between the call of execve and its work


@pytest.fixture
def slow_exec():
    """Hold back every execve of a process and its children."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    tracers = []

    def attach(pid):
        line = ["strace", "-f", "-p", str(pid), "-o", "/dev/null", "-e", "trace=execve"]
        tracer = subprocess.Popen(
            [*line, "-e", f"inject=execve:delay_enter={DELAY}s"],
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        tracers.append(tracer)
        said = tracer.stderr.readline()
        if b"attached" not in said:
            pytest.skip(f"cannot trace: {said.decode(errors='replace').strip()}")

    yield attach
    for tracer in tracers:
        signal_quietly(tracer.pid, signal.SIGKILL)
        tracer.communicate(timeout=20)


@pytest.mark.parametrize("lock", ["its lock", "no lock"])
def test_a_job_is_not_queued_again_while_the_child_can_still_exec(spool, slow_exec, lock):
    """Its lock lives on in such a child; without that, the capture lock alone holds the job."""
    worker = spool.start("work", "--json", "--grace", "0.3")
    wait_until(lambda: spool.json("status")["workers"], 20)
    slow_exec(worker.pid)
    job = spool.add("--backoff-base", "0", "-c", ALONE + "[ $SPOOLCTL_ATTEMPT -gt 1 ] || sleep 300")
    spool.wait_for(job, "running")
    (child, *_) = wait_until(lambda: children_of(worker.pid), 20)
    assert b"spoolctl" in Path(f"/proc/{child}/cmdline").read_bytes(), "it is the command already"
    if lock == "no lock":
        (spool.db.parent / "workers" / "1.lock").unlink()
    kill(worker)
    assert alive(child)
    spool.start("work", "--json", "--grace", "0.3", "--poll-interval", "0.1")
    wait_until(lambda: "reaped" in told(spool, job), 30)
    assert not alive(child)
    spool.wait_for(job, "done")
    assert set(log_of(spool)) == {"start"}
    shown = spool.show(job)
    assert shown["job"]["crashes"] == 1
    at = {one["event"]: one["at"] for one in reversed(shown["events"])}  # the first of each
    if lock == "its lock":
        assert at["reaped"] - at["claimed"] > DELAY - 0.1  # nobody could judge the worker dead before
