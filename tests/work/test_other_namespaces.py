"""SPEC 6: workers in other pid namespaces, as containers have them: seen from outside, from beside, and after
a restart under the same names and numbers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from looking import begun, log_of, told
from namespaces import Namespace
from support import clean_env, processes_of, wait_until
from workers import ALONE, GO, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


ONCE_LONG = f"{ALONE}[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {GO}; }}"


def at_work(spool, job_id):
    """(pid of the worker, pid of the leader), once the job has written to the log too."""
    pids = begun(spool, job_id)
    wait_until(lambda: log_of(spool), 20)
    return pids


def seen(spool):
    return [one["alive"] for one in spool.json("status")["workers"]]


def lock_file(spool, instance=1):
    return spool.db.parent / "workers" / f"{instance}.lock"


def test_a_worker_of_another_namespace_is_judged_by_its_lock(spool, namespace):
    job = spool.add("--backoff-base", "0", "-c", ONCE_LONG)
    namespace.start("work", "--json")
    worker, leader = at_work(spool, job)
    assert seen(spool) == [True]
    namespace.kill(worker, signal.SIGSTOP)
    assert spool.work("--idle-timeout", "1.5", check=0).data["executed"] == 0
    assert (seen(spool), spool.json("status")["orphaned"]) == ([True], 0)
    namespace.kill(worker)
    wait_until(lambda: seen(spool) == [False], 20)
    assert namespace.alive(leader)
    assert spool.work(check=0).data["executed"] == 1
    assert not namespace.alive(leader)
    assert (told(spool, job), log_of(spool)) == (
        ["added", "claimed", "reaped", "claimed", "succeeded"],
        ["start", "start"],
    )


def test_one_that_nothing_tells_of_is_unknown_and_only_ended_when_that_is_asked_for(spool, namespace):
    job = spool.add("--backoff-base", "0", "-c", ONCE_LONG)
    namespace.start("work", "--json")
    worker, leader = at_work(spool, job)
    lock_file(spool).unlink()
    assert seen(spool) == [None]
    namespace.end(worker)
    assert seen(spool) == [None]
    data = spool.work(check=0).data
    assert (data["executed"], data["unsettled"]) == (0, [job])
    assert spool.work("--idle-timeout", "1.5", check=0).data["executed"] == 0
    status = spool.json("status")
    assert (status["orphaned"], status["running_jobs"][0]["orphaned"]) == (0, False)

    for verb, *flags in (("cancel", "--running", "--yes"), ("retry", "--force")):
        refused = spool.run(verb, str(job), *flags, "--json", check=5)
        assert refused.error["detail"] == {"job_id": job, "state": "running", "why": "unverifiable_owner"}
    assert (namespace.alive(leader), told(spool, job)) == (True, ["added", "claimed"])
    answer = spool.run("retry", str(job), "--force", "--unverified", "--json", check=0)
    assert answer.warnings == ["UNVERIFIABLE_OWNER"]
    assert not namespace.alive(leader)
    assert spool.show(job)["events"][-1]["detail"] == "forced, unverified"
    assert spool.work(check=0).data["executed"] == 1
    assert log_of(spool) == ["start", "start"]


def test_beside_it_nothing_of_its_tree_is_seen_but_the_capture_lock_holds_the_job(spool, namespace):
    job = spool.add("--backoff-base", "0", "-c", ONCE_LONG)
    namespace.start("work", "--json", "--grace", "0.3")
    worker, leader = at_work(spool, job)
    namespace.end(worker)
    beside = Namespace(spool)
    try:
        stranger = beside.take(leader, "leader")  # whom the recorded number means there
        beside.start("work", "--json", "--grace", "0.3", "--poll-interval", "0.1")
        wait_until(lambda: spool.show(job)["job"]["ending"], 20, "a tree that cannot be ended from there")
        assert namespace.alive(leader)
        assert told(spool, job) == ["added", "claimed", "stuck"]
        (spool.path / "go").touch()
        spool.wait_for(job, "done")
        assert not namespace.alive(leader)
        assert told(spool, job) == ["added", "claimed", "stuck", "reaped", "claimed", "succeeded"]
        assert log_of(spool) == ["start", "start"]
        assert beside.alive(stranger)
    finally:
        beside.close()


def test_a_worker_that_is_pid_1_ends_what_its_jobs_leave_and_its_death_is_seen(spool):
    """As in a container without an init: whoever is orphaned there comes to it anyway."""
    left = "env -i setsid sleep 300 >/dev/null 2>&1 & exit 0"
    late = "setsid sleep 300 & sleep 300"
    jobs = [spool.add("-c", left), spool.add("--timeout", "0.3", "--max-retries", "0", "-c", late)]
    long = spool.add("--priority", "-1", "--backoff-base", "0", "-c", ONCE_LONG)
    line = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-m", "spoolctl"]
    box = subprocess.Popen(
        [*line, "work", "--json"], cwd=spool.path, env=clean_env(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: box.poll() is not None or seen(spool), 20)
    if box.poll() is not None:
        pytest.skip("cannot make a pid namespace")
    try:
        assert at_work(spool, long)[0] == 1
        assert [spool.state(job) for job in jobs] == ["done", "dead"]
        assert spool.show(jobs[0])["events"][-1]["detail"] == "ended 1 left processes"
        assert [one for one in processes_of(spool.path, spool.db) if "sleep 300" in one[1]] == []
        assert seen(spool) == [True]
    finally:
        box.kill()
        box.wait()
    wait_until(lambda: seen(spool) == [False], 20)
    spool.work(check=0)
    assert (spool.state(long), log_of(spool)) == ("done", ["start", "start"])


SEVENTH = 'echo 6 >/proc/sys/kernel/ns_last_pid && { "$@" & echo $!; wait; }'


def restarted(spool, stand_in, *words):
    """The worker of a container: pid 7, whatever start of the container this is."""
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        pytest.skip("ns_last_pid cannot be written")
    line = [sys.executable, "-m", "spoolctl", "work", "--json", "--worker-id", "box", "--grace", "0.3"]
    keeper = stand_in.begin("sh", "-c", SEVENTH, "sh", *line, *words, stdout=subprocess.PIPE)
    assert keeper.stdout.readline() == b"7\n"
    return keeper


@pytest.mark.parametrize("whole", [True, False])
def test_a_container_whose_worker_is_always_pid_7_brings_its_job_back_once(spool, whole):
    """QUALITY, case 36. `whole`: the container ends with all that runs in it; else the worker alone."""
    job = spool.add("--backoff-base", "0", "-c", ONCE_LONG)
    first = Namespace(spool)
    second = None
    try:
        restarted(spool, first)
        worker, leader = at_work(spool, job)
        assert worker == 7
        if whole:
            first.close()
        else:
            first.end(worker)
        # Its namespace may well be known by the number of the first one.
        second = Namespace(spool)
        stranger = second.take(leader, "session")
        restarted(spool, second)
        if not whole:
            wait_until(lambda: spool.show(job)["job"]["ending"], 20, "a tree that cannot be ended from there")
            assert first.alive(leader)
            assert log_of(spool) == ["start"]
            (spool.path / "go").touch()
        spool.wait_for(job, "done")
        shown = spool.show(job)
        assert [(a["state"], a["worker_id"], a["worker_pid"]) for a in shown["attempts"]] == [
            ("abandoned", "box", 7), ("succeeded", "box", 7),
        ]  # fmt: skip
        assert (shown["job"]["crashes"], log_of(spool)) == (1, ["start", "start"])
        wait_until(lambda: seen(spool) == [True], 20)
        assert second.alive(stranger)
    finally:
        first.close()
        if second is not None:
            second.close()


def test_two_live_workers_of_one_name_do_not_disturb_each_other(spool):
    jobs = [spool.add("--backoff-base", "0", "-c", f"echo $PPID >>log; {GO}") for _ in range(2)]
    both = [spool.start("work", "--json", "--worker-id", "same", "--poll-interval", "0.1") for _ in range(2)]
    wait_until(lambda: len(log_of(spool)) == 2, 20)
    assert seen(spool) == [True, True]
    assert spool.work("--idle-timeout", "1.5", check=0).data["executed"] == 0
    assert sorted(log_of(spool)) == sorted(str(one.pid) for one in both)
    mine = next(job for job in jobs if spool.show(job)["attempts"][0]["worker_pid"] == both[0].pid)
    other = next(job for job in jobs if job != mine)
    kill(both[0])
    wait_until(lambda: "reaped" in told(spool, mine), 20)
    assert told(spool, other) == ["added", "claimed"]
    (spool.path / "go").touch()
    for job in jobs:
        spool.wait_for(job, "done")
    assert told(spool, other) == ["added", "claimed", "succeeded"]
    assert told(spool, mine) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert both[1].poll() is None
    wait_until(lambda: seen(spool) == [True], 20)
