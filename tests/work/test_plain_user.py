"""The whole way of a job as a user who is not root, and what such a user's surroundings may refuse."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

import pytest
from looking import log_of, told
from support import alive, finish, processes_of, refused, wait_until
from workers import ALONE, GO, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


def test_a_plain_user_adds_works_reads_and_cancels(person):
    user = person
    says = user.add("-c", "id -u; umask; echo $HOME")
    tree = user.add("-c", "setsid sleep 300 & (env -i setsid sleep 300 >/dev/null 2>&1 &) ; echo up; wait")
    late = user.add(
        "--timeout", "0.5", "--max-retries", "0", "-c", "setsid sleep 300 & trap '' TERM; wait; sleep 300"
    )
    worker = user.start("work", "--json", "-j", "4", "--grace", "0.5")
    leader = user.leader(tree)
    wait_until(lambda: user.output(tree) == "up\n")
    status = user.json("status")
    assert [one["alive"] for one in status["workers"]] == [True]
    assert status["orphaned"] == 0
    user.wait_for(says, "done")
    assert user.output(says).split()[0] == str(user.uid)
    user.wait_for(late, "dead")
    assert alive(leader)
    user.json("cancel", str(tree), "--running", "--yes")
    user.wait_for(tree, "canceled")  # on a slow machine later than the call waits, with that grace
    assert not alive(leader)
    worker.send_signal(signal.SIGTERM)
    assert finish(worker, 20, check=0).data == {"stopped": True, "executed": 3}
    left = user.add("-c", "env -i setsid sleep 300 >/dev/null 2>&1 & exit 0")
    assert user.json("work", "--drain")["succeeded"] == 1
    assert user.show(left)["events"][-1]["detail"] == "ended 1 left processes"
    assert processes_of(user.path, user.db) == []


@pytest.mark.parametrize("how", ["another worker", "the next worker", "a caller"])
def test_a_plain_users_dead_worker_is_noticed_and_its_tree_ended(person, how):
    user = person
    script = "[ $SPOOLCTL_ATTEMPT -gt 1 ] || { setsid sleep 300 & sleep 300 & echo up; wait; }"
    job = user.add("--backoff-base", "0", "-c", ALONE + script)
    first = user.start("work", "--json", "--grace", "10")  # nobody needs it; a caller waits so long, and more
    leader = user.leader(job)
    wait_until(lambda: user.output(job) == "up\n")
    if how == "another worker":
        user.start("work", "--json", "--poll-interval", "0.1")
        wait_until(lambda: len(user.json("status")["workers"]) == 2)
    kill(first)
    if how == "a caller":
        assert user.json("cancel", str(job), "--running", "--yes")["state"] == "canceled"
        assert not alive(leader)
        assert told(user, job) == ["added", "claimed", "reaped", "canceled"]
        return
    if how == "the next worker":
        assert user.json("status")["orphaned"] == 1
        assert user.json("work", "--drain")["succeeded"] == 1
    user.wait_for(job, "done")
    assert not alive(leader)
    assert told(user, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert log_of(user) == ["start", "start"]


def no_process():
    """No more processes for this user, until somebody of this user lifts the soft limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))


def lifted(user, pid):
    lift = "import resource as r; n = r.RLIMIT_NPROC; "
    lift += f"_, hard = r.prlimit({pid}, n); r.prlimit({pid}, n, (hard, hard))"
    status, _ = user.shell(f"exec {user.python} -c '{lift}'")
    assert status == 0


def test_a_worker_that_may_start_no_process_waits_until_it_may(person):
    """Not the job's fault: no budget is spent, and the worker lives."""
    user = person
    job = user.add("--max-retries", "0", "--max-crashes", "0", "--", "echo", "ran")
    others = [user.add("--max-retries", "0", "--", "true") for _ in range(3)]
    began = time.monotonic()
    worker = user.start("work", "--poll-interval", "0.1", "-j", "2", preexec_fn=no_process)
    wait_until(lambda: told(user, job).count("interrupted") >= 2, 30, "some tries")
    tries = told(user, job).count("claimed")
    assert tries <= 2 + time.monotonic() - began  # one a second
    shown = user.show(job)
    reasons = {one["failure_reason"] for one in shown["attempts"] if one["state"] != "running"}
    assert reasons == {"worker_shutdown"}
    assert (shown["job"]["attempts"], shown["job"]["crashes"]) == (0, 0)
    lifted(user, worker.pid)
    for one in (job, *others):
        user.wait_for(one, "done")
    assert (user.output(job), worker.poll()) == ("ran\n", None)


def test_a_reaper_that_may_start_no_helper_waits_with_the_job_and_goes_on_itself(person):
    """Without a helper nobody knows who carries the dead worker's token: not proven gone, never run twice."""
    user = person
    job = user.add("--max-crashes", "0", "-c", f"setsid sh -c '{GO}' >/dev/null 2>&1 & echo up; wait")
    first = user.start("work", "--grace", "0.5")
    leader = user.leader(job)
    wait_until(lambda: user.output(job) == "up\n")
    kill(first)  # before its leader, or it would end the rest itself
    os.kill(leader, signal.SIGKILL)
    second = user.start("work", "--poll-interval", "0.1", preexec_fn=no_process)
    wait_until(lambda: len(user.json("status")["workers"]) == 2)
    time.sleep(1.5)  # what a hasty one would take
    assert (user.show(job)["job"]["state"], second.poll()) == ("running", None)
    lifted(user, second.pid)
    user.wait_for(job, "dead")
    assert [pid for pid, _ in processes_of(user.path, user.db)] == [second.pid]


def test_output_that_may_not_be_written_fails_the_attempts_and_no_worker(person):
    user = person
    output = user.path / ".spoolctl" / "output"
    first = user.add()
    user.json("work", "--drain")
    output.chmod(0o500)
    job = user.add("--max-retries", "0", "-c", "echo must not run >ran")
    worker = user.start("work", "--poll-interval", "0.1")
    user.wait_for(job, "dead")
    attempt = user.show(job)["attempts"][-1]
    assert (attempt["failure_reason"], attempt["error"]) == (
        "spawn_failed", f"spawn failed: [Errno 13] Permission denied: '{output}/{job}'",
    )  # fmt: skip
    assert not (user.path / "ran").exists()
    output.chmod(0o700)
    again = user.add("--", "echo", "goes on")
    user.wait_for(again, "done")
    assert (user.output(again), worker.poll()) == ("goes on\n", None)
    assert user.show(first)["job"]["state"] == "done"


def test_a_directory_that_may_not_be_entered_fails_the_attempt(person):
    user = person
    folder = user.path / "closed"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, user.uid, user.uid)
    job = user.add("--max-retries", "0", "--cwd", "closed", "--", "true")
    folder.chmod(0)
    program = user.path / "not for you"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    other = user.add("--max-retries", "0", "--", "./not for you")
    assert user.json("work", "--drain")["dead"] == 2
    for one, name in ((job, folder), (other, "./not for you")):
        error = user.show(one)["attempts"][-1]["error"]
        assert error == f"spawn failed: [Errno 13] Permission denied: '{name}'"


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_worker_that_is_shut_out_of_its_queue_ends_its_trees_and_says_so(person, busy):
    user = person
    job = user.add("-c", "setsid sleep 300 & sleep 300 & echo up; wait")
    if not busy:
        user.json("cancel", str(job))
    worker = user.start("work", "--json", "--grace", "0.5")
    leader = user.leader(job) if busy else None
    if not busy:
        wait_until(lambda: user.json("status")["workers"])
    folder = user.path / ".spoolctl"
    folder.chmod(0)
    error = refused(
        finish(worker, 20, check=3),
        "DB_READONLY",
    )
    assert error["message"].startswith(f"{folder}/queue.db: Permission denied; make ")
    assert error["remediation"] == "spoolctl doctor"
    assert leader is None or not alive(leader)
    folder.chmod(0o700)
    if busy:  # the next one brings it back: the first could not say what became of it
        user.start("work", "--json", "--poll-interval", "0.1")
        wait_until(lambda: "reaped" in told(user, job))
        user.json("cancel", str(job), "--running", "--yes")
