"""SPEC 6, Requests: several callers at once, and a caller that is killed."""

from __future__ import annotations

import signal
import sys

import pytest
from asking import AFTERWARDS, EVENT, LASTING, PATIENT, VERBS, ask, asked, owner, settled, soak
from looking import change, details, log_of, requested, started, told
from support import alive, finish, wait_until
from workers import ALONE, DEAF, GO, hooked, kill, state_of, stop

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

NOT_STARTED = ("work", "--once", "--json")


def in_hands_of(spool, fate):
    """A job that runs, with its owner in this state."""
    job = spool.add("--max-crashes", "0", "-c", f"{ALONE} echo up; {GO}")
    if fate == "not started":
        worker = hooked(spool, "claimed", signal.SIGSTOP, *NOT_STARTED)
        spool.wait_for(job, "running")
        wait_until(lambda: state_of(worker.pid) == "T", 10)
        return job, worker
    worker = owner(spool, "--grace", "10")
    started(spool, job, b"up")
    stop(worker)
    if fate == "dead":
        kill(worker)
    return job, worker


@pytest.mark.parametrize(
    ("fate", "verb"),
    [
        ("not started", "cancel"),
        ("not started", "retry"),
        ("stopped", "cancel"),
        ("alive", "retry"),
        ("dead", "retry"),
        soak("stopped", "retry"),
        soak("alive", "cancel"),
        soak("dead", "cancel"),
    ],
)
def test_two_callers_who_ask_the_same_get_the_same_answer(spool, verb, fate):
    job, worker = in_hands_of(spool, fate)
    callers = [ask(spool, verb, job, limits=LASTING) for _ in range(2)]
    if fate == "alive":
        wait_until(lambda: requested(spool, job)[0], 10)
        worker.send_signal(signal.SIGCONT)
    answers = [finish(caller) for caller in callers]
    if fate == "not started":
        # One of them takes the request back; the other must not go on as if it stood.
        for answer in answers:
            assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "not_started"}
        assert requested(spool, job) == (None, None)
        runs_once(spool, job, worker)
        return
    for answer in answers:
        # Whoever comes after the other's end is told of the state that it made.
        state = AFTERWARDS[verb]
        late = answer.exit == 5 and answer.error["detail"] == {"job_id": job, "state": state}
        assert late or answer.data["state"] == state
    assert any(answer.exit == 0 for answer in answers)
    settled(spool, verb, job, *(["reaped"] if fate == "dead" else []))


@pytest.mark.parametrize("first", VERBS)
@pytest.mark.parametrize("fate", ["alive", "stopped", "dead", "not started"])
def test_of_a_cancel_and_a_forced_retry_the_cancel_wins_and_the_retry_says_so(spool, first, fate):
    job, worker = in_hands_of(spool, fate)
    callers = {}
    if fate == "dead":  # no second's time to come between
        order = (first, *(verb for verb in VERBS if verb != first))
        callers = {verb: ask(spool, verb, job, limits=LASTING) for verb in order}
    else:
        callers[first] = asked(spool, first, job, LASTING)
        callers |= {verb: ask(spool, verb, job, limits=LASTING) for verb in VERBS if verb != first}
    if fate == "alive":
        # Or the first has lost patience and is through.
        wait_until(lambda: requested(spool, job)[0] == "cancel" or spool.state(job) != "running", 20)
        worker.send_signal(signal.SIGCONT)
    answers = {verb: finish(caller) for verb, caller in callers.items()}
    if fate == "not started":
        assert answers["cancel"].error["detail"]["why"] == "not_started"
        assert answers["retry"].code == "CONFLICT"
        assert requested(spool, job) == (None, None)
        runs_once(spool, job, worker)
        return
    assert answers["cancel"].data["state"] == "canceled"
    if answers["retry"].exit == 0:  # one was over before the other came: the job is what came last
        *_, one, two = told(spool, job)
        assert {one, two} == {"canceled", "retried"}
        assert spool.state(job) == ("canceled" if two == "canceled" else "queued")
        return
    assert answers["retry"].code == "CONFLICT"
    assert answers["retry"].error["detail"]["state"] in ("running", "canceled")
    settled(spool, "cancel", job, *(["reaped"] if fate == "dead" else []))


def runs_once(spool, job, worker):
    (spool.path / "go").touch()
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(20) == 0
    assert told(spool, job) == ["added", "claimed", "succeeded"]
    assert log_of(spool) == ["start"]


# --- the caller -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_of_a_caller_that_was_killed_reaches_an_owner_that_had_not_started(spool, verb):
    job, worker = in_hands_of(spool, "not started")
    kill(asked(spool, verb, job, PATIENT))
    worker.send_signal(signal.SIGCONT)
    answer = finish(worker, 20, check=0, words=NOT_STARTED)
    assert answer.data["result"] == ("canceled" if verb == "cancel" else "interrupted")
    settled(spool, verb, job)


@pytest.mark.parametrize("verb", VERBS)
def test_an_owner_that_cannot_be_judged_answers_a_request_that_was_forced_on_it(spool, verb):
    job = spool.add("-c", DEAF)
    worker = owner(spool, "--grace", "3")
    pid = started(spool, job, b"up")
    change(spool, "UPDATE workers SET boot_id = NULL")
    stop(worker)
    caller = ask(spool, verb, job, "--unverified")
    wait_until(lambda: requested(spool, job)[0], 10)
    kill(caller)
    assert alive(pid)
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(20) == 0
    assert not alive(pid)
    settled(spool, verb, job)
    assert details(spool, job, EVENT[verb]) == [
        "forced (was running)" if verb == "cancel" else "forced, unverified"
    ]
