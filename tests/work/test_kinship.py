"""SPEC 5: once of the tree, always of the tree. Members that lose what tied them to it while it is being
ended, and what was kept on purpose and is nobody's any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from looking import details, pid_in, started, told
from support import alive, wait_until
from workers import ALONE, GO, kill, scripted, state_of

from spoolctl.work import proc

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and adoption")

# Deaf, in a session of its own, with no token and none of the outputs: kin by descent alone.
BARE = 'env -i PATH="$PATH" setsid sh -c "trap \'\' TERM; echo \\$\\$ >bare; exec sleep 300" >/dev/null 2>&1'


def test_a_descendant_is_known_after_the_end_of_whoever_stood_between(spool):
    other = spool.add("-c", GO)  # so that nobody who is adopted belongs to the only attempt there is
    script = ALONE + f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {BARE} 9>&9 & echo up; wait; wait; }}"
    job = spool.add("-c", script)
    worker = spool.start("work", "-j", "2", "--grace", "0.5")
    started(spool, job, b"up")
    bare = pid_in(spool.path / "bare")
    spool.json("retry", str(job), "--force")
    spool.wait_for(job, "done")
    assert not alive(bare)
    assert told(spool, job) == ["added", "claimed", "retried", "claimed", "succeeded"]
    assert (spool.path / "log").read_text().split() == ["start", "start"]
    assert spool.state(other) == "running"
    (spool.path / "go").touch()
    spool.wait_for(other, "done")
    assert worker.poll() is None


def test_a_member_whose_main_thread_has_ended_is_ended_before_the_job_runs_again(spool):
    program = (
        "import ctypes, os, threading, time; os.setsid(); open('bare', 'w').write(str(os.getpid())); "
        "[os.close(fd) for fd in (1, 2)]; threading.Thread(target=time.sleep, args=(300,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    (spool.path / "program.py").write_text(program)
    first = f"{sys.executable} program.py & echo up; {GO}"
    job = spool.add("--backoff-base", "0", "-c", ALONE + f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {first}; }}")
    worker = spool.start("work", "--json", "--grace", "0.3")
    pid = started(spool, job, b"up")
    bare = pid_in(spool.path / "bare")
    wait_until(lambda: state_of(bare) == "Z", 20)
    kill(worker)
    (spool.path / "go").touch()
    wait_until(lambda: not alive(pid), 10)
    spool.work(check=0)
    assert (spool.path / "log").read_text().split() == ["start", "start"]
    left = proc.stat(bare)
    assert left is None or left.gone


@pytest.mark.parametrize("hold", ["one of its own", "one that only shared it"])
def test_what_was_kept_outlives_the_attempts_that_come_later(spool, hold):
    first = spool.add("--keep-children", "-c", "setsid sleep 300 >/dev/null 2>&1 & exit 0")
    kept = spool.add(
        "--keep-children",
        "-c",
        f"({BARE.replace('exec sleep', 'sleep')} &) ; until [ -s bare ]; do sleep 0.02; done",
    )
    worker = spool.start("work", "--json", "--grace", "0.2")
    bare = pid_in(spool.path / "bare")
    for job in (first, kept):
        spool.wait_for(job, "done")
    later = spool.add("--timeout", "0.5", "--max-retries", "0", "--", "sleep", "100")
    after = spool.add("-c", "sleep 300 & exit 0") if hold == "one of its own" else spool.add()
    spool.wait_for(later, "dead")
    spool.wait_for(after, "done")
    assert alive(bare)
    assert worker.poll() is None
    os.kill(bare, signal.SIGKILL)
    spool.leaves_processes()


def test_a_tree_is_stuck_only_two_seconds_after_its_kill_was_sent(spool):
    """However late that was: a worker that was stopped between TERM and KILL has not tried yet."""
    deaf = "trap ': >termed' TERM; while :; do sleep 0.02; done"
    job = spool.add("--timeout", "0.5", "--max-retries", "0", "-c", deaf)
    worker = spool.start("work", "--json", "--grace", "1")
    # TERM is sent, KILL is not; and if it is, or TERM came before the trap, nothing is shown wrong.
    wait_until(lambda: (spool.path / "termed").exists() or spool.state(job) == "dead")
    worker.send_signal(signal.SIGSTOP)
    time.sleep(4)
    worker.send_signal(signal.SIGCONT)
    spool.wait_for(job, "dead")
    assert told(spool, job) == ["added", "claimed", "timed_out", "dead"]


def test_many_jobs_of_a_dead_worker_come_back_together(spool):
    """One look at all processes serves all of their trees."""
    spool.run(
        "add", "--from", "-", "--backoff-base", "0", stdin=b"[ $SPOOLCTL_ATTEMPT -gt 1 ] || sleep 300\n" * 60
    )
    worker = spool.start("work", "--json", "-j", "60", "--grace", "1")
    wait_until(lambda: spool.json("status")["counts"]["running"] == 60, 60)
    jobs = range(1, 61)
    wait_until(lambda: all(spool.show(job)["attempts"][0]["pid"] for job in jobs), 60)
    kill(worker)
    assert spool.work("-j", "4", check=0).data["succeeded"] == 60
    assert [details(spool, job, "stuck") for job in jobs] == [[]] * 60


def test_force_unverified_goes_on_although_only_the_proof_is_missing(spool):
    """No helper can be started, so nobody can say that the tree is gone."""
    job = spool.add("-c", f"echo up; {GO}")
    worker = spool.start("work", "--json", "--grace", "0.2")
    started(spool, job, b"up")
    kill(worker)
    program = (  # its patience: for a slow machine, but less than the ten seconds without --unverified
        "import sys; sys.executable = '/nowhere'; from spoolctl.work import pursuit; pursuit.TO_TELL = 7; "
        "from spoolctl.__main__ import main; main()"
    )
    with subprocess.Popen(["sleep", "300"]) as bystander:  # of whom it is not known whether it belongs
        caller = scripted(spool, program, "retry", "--json", str(job), "--force", "--unverified")
        assert caller.wait(30) == 0, caller.stderr.read()
        assert bystander.poll() is None
        bystander.kill()
    assert spool.state(job) == "queued"
    assert details(spool, job, "retried") == ["forced, unverified"]
