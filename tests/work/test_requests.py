"""SPEC 6, Requests: `cancel` and `retry --force` of a running job, whatever becomes of its owner and of its
command meanwhile.
"""

from __future__ import annotations

import signal
import sys
import time

import pytest
from asking import AFTERWARDS, EVENT, LASTING, PATIENT, VERBS, ask, asked, owner, seen, settled, soak
from looking import ended, last, log_of, opened, started, told
from support import alive, finish, processes_of, wait_until
from workers import GO, STAYS, held, hooked, kill, lines_of, state_of, stop, talking, tell

from spoolctl import clock
from spoolctl.store import owners
from spoolctl.work import pursuit

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


# --- the owner --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told_of_it", "verb"), [(False, "cancel"), (True, "retry"), soak(False, "retry"), soak(True, "cancel")]
)
def test_the_caller_does_what_an_owner_that_dies_meanwhile_cannot(spool, verb, told_of_it):
    job = spool.add("--max-crashes", "0", "-c", STAYS)
    worker = owner(spool, "--grace", "20")
    pid = started(spool, job, b"up")
    limits = LASTING | {"SILENT_AFTER": 3}  # its look at an owner that says nothing is what shows the death
    if told_of_it:
        caller = ask(spool, verb, job, limits=limits)
        seen(spool, job)
    else:
        stop(worker)
        caller = asked(spool, verb, job, limits)
    kill(worker)
    (spool.path / "free").touch()
    answer = finish(caller, check=0)
    assert (answer.data["state"], answer.warnings) == (AFTERWARDS[verb], [])
    assert not alive(pid)
    assert ended(last(spool, job)) == ("abandoned", "worker_crash", "worker died")
    settled(spool, verb, job, "reaped")


def test_a_child_that_is_recorded_while_the_owner_is_judged_is_ended_too(spool):
    # Only its session ties it to the attempt: it bears no token and holds no capture file.
    script = "exec env -i sh -c 'exec >/dev/null 2>&1; sleep 300'"
    job = spool.add("-c", script)
    worker = hooked(spool, "spawned", signal.SIGSTOP, "work", "--once", "--grace", "0.5")
    spool.wait_for(job, "running")
    wait_until(lambda: state_of(worker.pid) == "T", 10)
    with opened(spool) as db:
        before = owners.running_job(db, job)
        assert before["pid"] is None
        worker.send_signal(signal.SIGCONT)
        pid = started(spool, job)
        kill(worker)
        one = pursuit.Pursuit(db, before, "requeue", False, None)
        with db.write() as conn:
            one.ask(conn, clock.now())
        pursuit.pursue(db, [one])
    assert not alive(pid)
    settled(spool, "retry", job, "reaped")


@pytest.mark.parametrize("verb", ["retry", soak("cancel")])
def test_an_owner_that_comes_back_while_the_caller_ends_its_tree_settles_it_with_it_once(spool, verb):
    script = "trap 'echo term >>log' TERM; echo up; while :; do sleep 0.02; done"
    job = spool.add("-c", script)
    worker = talking(spool, "-j", "2", "--poll-interval", "0.1", "--grace", "1")
    pid = started(spool, job, b"up")
    after = [spool.add("--after", "1h", "-c", f"echo run >>log; {GO}") for _ in range(3)]
    stop(worker)
    caller = asked(spool, verb, job, LASTING)
    wait_until(lambda: log_of(spool) == ["term"], 20, "the caller's TERM")
    worker.send_signal(signal.SIGCONT)
    assert finish(caller, check=0).data["state"] == AFTERWARDS[verb]
    assert not alive(pid)
    assert told(spool, job)[:3] == ["added", "claimed", EVENT[verb]]
    assert ended(spool.show(job)["attempts"][0])[0] == {"cancel": "canceled", "retry": "abandoned"}[verb]
    if verb == "retry":
        spool.json("cancel", str(job), "--running", "--yes")
    # Whoever settled it: both of its slots are free, and there are two.
    spool.json("retry", *map(str, after), "--now")
    wait_until(lambda: log_of(spool).count("run") == 2, 20)
    assert [spool.state(one) for one in after] == ["running", "running", "queued"]
    (spool.path / "go").touch()
    spool.wait_for(after[2], "done")
    assert len(lines_of(spool, f"job {job} attempt 1 ")) == 1


@pytest.mark.parametrize("fate", ["stopped", soak("dead")])
def test_the_grace_is_the_owners(spool, fate):
    job = spool.add("-c", "trap ': >termed' TERM; echo up; while :; do sleep 0.02; done")
    worker = owner(spool, "--grace", "6.5")
    pid = started(spool, job, b"up")
    stop(worker)
    if fate == "dead":
        kill(worker)
    began = time.monotonic()
    caller = ask(spool, "cancel", job, limits=LASTING)
    wait_until((spool.path / "termed").exists, 20, "the caller's TERM")
    wait_until(lambda: not alive(pid), 20)
    assert time.monotonic() - began > (6.5 if fate == "dead" else 7.5)  # the default is 5 s
    assert finish(caller, check=0).data["state"] == "canceled"


@pytest.mark.parametrize(
    ("first", "verb"),
    [("request", "retry"), ("signals", "cancel"), soak("request", "cancel"), soak("signals", "retry")],
)
def test_a_worker_that_is_told_to_go_honours_a_request_before_and_after(spool, verb, first):
    job = spool.add("-c", STAYS)
    worker = owner(spool, "--grace", "30")
    started(spool, job, b"up")
    if first == "request":
        caller = ask(spool, verb, job, limits=PATIENT)
        seen(spool, job)
    tell(worker, signal.SIGTERM, signal.SIGTERM)
    if first == "signals":
        caller = asked(spool, verb, job, PATIENT)
    (spool.path / "free").touch()
    assert finish(caller, check=0).data["state"] == AFTERWARDS[verb]
    assert worker.wait(20) == 0
    if first == "request":
        settled(spool, verb, job)
    else:
        assert ended(last(spool, job)) == ("abandoned", "worker_shutdown", "worker stopped")
        settled(spool, verb, job, "interrupted")


# --- the command ------------------------------------------------------------------------------------------

# What the command does while its owner is stopped: (its script, flags, how the attempt ended, its event).
BY_ITSELF = {
    "succeeded": (f"{GO}; exit 0", (), ("succeeded", None, None)),
    "failed": (f"{GO}; exit 3", (), ("failed", "process_exit", "exit 3")),
    "timed_out": ("exec sleep 300", ("--timeout", "0.5"), ("timed_out", "timeout", "timed out after 0.5s")),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("own", BY_ITSELF)
def test_a_request_whose_caller_was_killed_stands_although_the_attempt_ends_by_itself(spool, verb, own):
    script, flags, how = BY_ITSELF[own]
    job = spool.add("--max-retries", "0", "--backoff-base", "1h", *flags, "-c", script)
    worker = held(spool, "--json", "--max-jobs", "1")
    began = time.monotonic()
    pid = started(spool, job)
    kill(asked(spool, verb, job, PATIENT))
    if own == "timed_out":
        time.sleep(max(0, began + 0.6 - time.monotonic()))
    else:
        (spool.path / "go").touch()
        wait_until(lambda: not alive(pid), 10)
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(20) == 0
    assert ended(last(spool, job)) == how
    settled(spool, verb, job, own)


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_while_left_processes_are_ended_keeps_the_commands_own_outcome(spool, verb):
    job = spool.add("-c", f"({STAYS.replace('echo up', 'touch go')}) & {GO}; exit 0")
    worker = owner(spool, "--grace", "30")
    pid = started(spool, job)
    wait_until(lambda: not alive(pid), 10)
    caller = ask(spool, verb, job, limits=PATIENT)
    seen(spool, job)
    (spool.path / "free").touch()
    answer = finish(caller, check=0)
    assert (answer.data["state"], answer.warnings) == (AFTERWARDS[verb], [])
    assert worker.wait(20) == 0
    assert processes_of(spool.path, spool.db) == []
    assert ended(last(spool, job)) == ("succeeded", None, None)
    settled(spool, verb, job, "succeeded")
