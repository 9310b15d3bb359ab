"""QUALITY, case 33: a worker that dies between fork and exec leaves a child that may yet be the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from looking import log_of, told
from support import alive, wait_until
from workers import ALONE, children_of, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

DELAY = 120  # seconds between a system call and its work: the test ends them when it has seen enough


@pytest.fixture
def slow():
    """Hold back one system call of a process and its children, as long as the tracer that it gives lives."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    tracers = []

    def attach(pid, call):
        line = ["strace", "-f", "-p", str(pid), "-o", "/dev/null", "-e", f"trace={call}"]
        tracer = subprocess.Popen(
            [*line, "-e", f"inject={call}:delay_enter={DELAY}s"],
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        tracers.append(tracer)
        said = tracer.stderr.readline()
        if b"attached" not in said:
            pytest.skip(f"cannot trace: {said.decode(errors='replace').strip()}")
        return tracer

    yield attach
    for tracer in tracers:
        tracer.kill()
        tracer.communicate(timeout=20)


@pytest.mark.parametrize(
    ("call", "lock"), [("setsid", "its lock"), ("setsid", "a lost lock"), ("execve", "no lock")]
)
def test_a_job_is_not_queued_again_while_the_child_can_still_exec(spool, slow, call, lock):
    """The worker's lock lives on in such a child until that closes it, after setsid and before execve.
    Without it, the capture lock alone holds the job.
    """
    worker = spool.start("work", "--json", "--grace", "0.3")
    wait_until(lambda: spool.json("status")["workers"], 20)
    tracer = slow(worker.pid, call)
    job = spool.add("--backoff-base", "0", "-c", ALONE + "[ $SPOOLCTL_ATTEMPT -gt 1 ] || sleep 300")
    spool.wait_for(job, "running")
    (child, *_) = wait_until(lambda: children_of(worker.pid), 20)
    assert b"spoolctl" in Path(f"/proc/{child}/cmdline").read_bytes(), "it is the command already"
    if lock == "a lost lock":
        (spool.db.parent / "workers" / "1.lock").unlink()
    kill(worker)
    assert alive(child)
    spool.start("work", "--json", "--grace", "0.3", "--poll-interval", "0.1", "--worker-id", "second")
    wait_until(lambda: "second" in [one["worker_id"] for one in spool.json("status")["workers"]], 20)
    time.sleep(1.5)  # it looks at dead owners once a second; and if it has not yet, nothing is shown wrong
    if lock == "its lock":
        assert spool.json("status")["orphaned"] == 0  # nobody can judge the worker dead
        assert (told(spool, job), alive(child)) == (["added", "claimed"], True)
    assert "reaped" not in told(spool, job) or not alive(child)
    kill(tracer)
    wait_until(lambda: "reaped" in told(spool, job), 30)
    assert not alive(child)
    spool.wait_for(job, "done")
    assert set(log_of(spool)) == {"start"}
    assert spool.show(job)["job"]["crashes"] == 1
