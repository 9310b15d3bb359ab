"""SPEC 6, Requests: what `cancel` and `retry --force` make of a running job, and what they answer."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from asking import AFTERWARDS, FLAGS, PATIENT, VERBS, ask, asked, seen
from looking import change, details, ended, last, log_of, requested, started, told
from support import alive, finish, processes_of, wait_until
from workers import ALONE, DEAF, GO, dropped, hooked, kill, refusals, state_of, stopped, talking

from spoolctl.work import pursuit

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd"),
    pytest.mark.usefixtures("patient"),
]


def test_a_running_job_is_canceled_by_its_worker_tree_and_all(spool):
    job = spool.add("--key", "k", "-c", "setsid sleep 300 & sleep 300 & echo up; wait")
    worker = spool.start("work", "--json", "--poll-interval", "0.1")
    pid = started(spool, job, b"up")
    assert spool.run("cancel", str(job), "--json").code == "SAFETY_BLOCK"
    assert spool.run("cancel", str(job), "--running", "--json").code == "SAFETY_BLOCK"
    assert spool.run("retry", str(job), "--json").code == "SAFETY_BLOCK"
    assert alive(pid)
    answer = spool.run("cancel", str(job), "--running", "--yes", "--json", check=0)
    assert answer.data == {"job_id": job, "state": "canceled", "was_running": True, "cancel_requested": True}
    assert answer.warnings == []
    assert processes_of(spool.path, spool.db) == [
        (worker.pid, one) for pid, one in processes_of(spool.path, spool.db) if pid == worker.pid
    ]
    assert ended(last(spool, job)) == ("canceled", "canceled", "canceled")
    assert told(spool, job) == ["added", "claimed", "canceled"]
    assert details(spool, job, "canceled") == ["forced (was running)"]
    assert spool.show(job)["job"]["cancel_requested_at"] is None
    again = spool.add("--key", "k", "--", "true")
    spool.wait_for(again, "done")


def test_a_running_job_is_queued_again_by_force_with_a_fresh_budget(spool):
    job = spool.add("--max-retries", "0", "-c", ALONE + f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {GO}")
    spool.start("work", "--json", "--poll-interval", "0.1")
    pid = started(spool, job)
    wait_until(lambda: log_of(spool), 20)
    answer = spool.run("retry", str(job), "--force", "--json", check=0)
    assert (answer.data["job_id"], answer.warnings) == (job, [])
    assert not alive(pid)
    spool.wait_for(job, "done")
    first = spool.show(job)["attempts"][0]
    assert ended(first) == ("abandoned", "canceled", "force-retried")
    assert told(spool, job) == ["added", "claimed", "retried", "claimed", "succeeded"]
    assert details(spool, job, "retried") == ["forced"]
    assert spool.show(job)["job"]["attempts"] == 0
    assert log_of(spool) == ["start", "start"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_caller_ends_the_tree_of_a_dead_owner(spool, verb):
    job = spool.add("--max-crashes", "0", "-c", ALONE + "setsid sleep 300 & echo up; wait")
    worker = spool.start("work", "--json")
    pid = started(spool, job, b"up")
    kill(worker)
    assert alive(pid)
    state = spool.json(verb, str(job), *FLAGS[verb])["state"]
    assert processes_of(spool.path, spool.db) == []
    assert ended(last(spool, job)) == ("abandoned", "worker_crash", "worker died")
    if verb == "cancel":
        assert (state, spool.state(job)) == ("canceled", "canceled")
        assert told(spool, job) == ["added", "claimed", "reaped", "canceled"]
        assert spool.work(check=0).data["executed"] == 0
    else:
        assert (state, spool.state(job)) == ("queued", "queued")
        assert told(spool, job) == ["added", "claimed", "reaped", "retried"]
        shown = spool.show(job)["job"]
        assert (shown["attempts"], shown["crashes"], shown["last_error"]) == (0, 0, None)


@pytest.mark.parametrize("verb", VERBS)
def test_a_caller_that_settles_a_job_in_its_last_moment_says_so(spool, verb, monkeypatch):
    job = spool.add("--", "sleep", "300")
    worker = spool.start("work", "--json", "--grace", "10")
    started(spool, job)
    kill(worker)
    settle = pursuit.Pursuit._settle

    def just_in_time(one, outcome, overridden):
        settle(one, outcome, overridden)
        one.deadline = 0

    monkeypatch.setattr(pursuit.Pursuit, "_settle", just_in_time)
    answer = spool.run(verb, str(job), *FLAGS[verb], "--json", check=0)
    assert (answer.data["state"], answer.warnings) == (AFTERWARDS[verb], [])


@pytest.mark.parametrize("verb", VERBS)
def test_the_caller_ends_the_tree_of_an_owner_that_does_not_answer(spool, verb):
    job = spool.add("-c", f"{ALONE} [ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ setsid sleep 300 & echo up; wait; }}")
    worker = talking(spool, "--poll-interval", "0.1", "--grace", "0.5")
    pid = started(spool, job, b"up")
    with stopped(worker):
        answer = spool.run(verb, str(job), *FLAGS[verb], "--json", check=0)
        assert answer.data["state"] == AFTERWARDS[verb]
        assert answer.warnings == []
        assert not alive(pid)
        assert ended(last(spool, job)) == (
            ("canceled", "canceled", "canceled")
            if verb == "cancel"
            else ("abandoned", "canceled", "force-retried")
        )
    after = spool.add("--", "true")
    spool.wait_for(after, "done")
    if verb == "cancel":
        assert told(spool, job) == ["added", "claimed", "canceled"]
        assert log_of(spool) == ["start"]
    else:
        spool.wait_for(job, "done")
        assert told(spool, job) == ["added", "claimed", "retried", "claimed", "succeeded"]
        assert log_of(spool) == ["start", "start"]
    assert refusals(spool) == [dropped(job)]


def test_an_owner_that_is_stopped_before_the_start_is_left_alone(spool):
    job = spool.add("-c", ALONE)
    worker = hooked(spool, "claimed", signal.SIGSTOP, "work", "--json", "--drain")
    spool.wait_for(job, "running")
    wait_until(lambda: state_of(worker.pid) == "T", 10)
    for verb in ("retry", "cancel"):
        answer = spool.run(verb, str(job), *FLAGS[verb], "--json", check=5)
        assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "not_started"}
        assert requested(spool, job) == (None, None)
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(20) == 0
    assert told(spool, job) == ["added", "claimed", "succeeded"]
    assert log_of(spool) == ["start"]


def test_an_owner_that_cannot_be_judged_is_left_alone_unless_told_otherwise(spool):
    job = spool.add("--max-retries", "0", "-c", ALONE + f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {GO}")
    worker = spool.start("work", "--json", "--poll-interval", "0.1")
    pid = started(spool, job)
    wait_until(lambda: log_of(spool), 20)
    change(spool, "UPDATE workers SET boot_id = NULL")
    for verb in ("retry", "cancel"):
        answer = spool.run(verb, str(job), *FLAGS[verb], "--json", check=5)
        assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "unverifiable_owner"}
        assert requested(spool, job) == (None, None)
    assert alive(pid)
    assert spool.json("status")["workers"][0]["alive"] is None
    answer = spool.run("retry", str(job), "--force", "--unverified", "--json", check=0)
    assert answer.warnings == ["UNVERIFIABLE_OWNER"]
    assert not alive(pid)
    spool.wait_for(job, "done")
    assert details(spool, job, "retried") == ["forced, unverified"]
    assert log_of(spool) == ["start", "start"]
    assert worker.poll() is None


def test_a_command_that_does_not_obey_is_killed_after_the_grace_of_its_owner(spool, monkeypatch):
    monkeypatch.setattr(pursuit, "SILENT_AFTER", 60)  # by its owner
    job = spool.add("-c", DEAF)
    spool.start("work", "--json", "--grace", "0.7")
    pid = started(spool, job, b"up")
    began = time.monotonic()
    answer = spool.run("cancel", str(job), "--running", "--yes", "--json", check=0)
    assert (answer.data["state"], answer.warnings) == ("canceled", [])
    assert time.monotonic() - began >= 0.7
    assert not alive(pid)
    assert last(spool, job)["signal"] == "SIGKILL"


def test_a_cancel_that_takes_too_long_is_answered_and_followed_through(spool):
    job = spool.add("--key", "k", "-c", DEAF)
    worker = spool.start("work", "--json", "--grace", "4")
    pid = started(spool, job, b"up")
    cancel = ask(spool, "cancel", job, limits=PATIENT | {"BEYOND_GRACE": -2})
    seen(spool, job)
    with stopped(worker):
        answer = finish(cancel, 20, check=0)
        assert answer.data == {
            "job_id": job, "state": "running", "was_running": True, "cancel_requested": True,
        }  # fmt: skip
        assert answer.warnings == ["KILL_ASYNC"]
        assert alive(pid)
        assert spool.show(job)["job"]["cancel_requested_at"] is not None
        assert spool.run("add", "--json", "--key", "k", "--", "true").code == "IDEMPOTENCY_CONFLICT"
    waited = spool.run("wait", str(job), "--timeout", "20", "--json", check=6)
    assert waited.data["jobs"][str(job)]["state"] == "canceled"
    assert not alive(pid)


@pytest.mark.parametrize(("verb", "code"), [("cancel", 0), ("cancel", 1), ("retry", 0), ("retry", 1)])
def test_a_request_stands_although_the_command_ended_by_itself_meanwhile(spool, verb, code):
    job = spool.add("--max-retries", "0", "-c", f"{GO}; exit {code}")
    worker = spool.start("work", "--json", "--max-jobs", "1")
    pid = started(spool, job)
    with stopped(worker):
        (spool.path / "go").touch()
        wait_until(lambda: not alive(pid), 10)
        caller = asked(spool, verb, job, PATIENT)
    assert caller.wait(20) == 0
    attempt = last(spool, job)
    assert (attempt["state"], attempt["exit_code"]) == (("failed" if code else "succeeded"), code)
    own = "failed" if code else "succeeded"
    if verb == "cancel":
        assert spool.state(job) == "canceled"
        assert told(spool, job) == ["added", "claimed", own, "canceled"]
    else:
        shown = spool.show(job)["job"]
        assert (shown["state"], shown["attempts"], shown["last_exit_code"]) == ("queued", 0, None)
        assert told(spool, job) == ["added", "claimed", own, "retried"]
    assert requested(spool, job) == (None, None)


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_stands_although_owner_and_caller_die(spool, verb):
    job = spool.add("--max-crashes", "0", "-c", f"echo run >>log; [ $SPOOLCTL_ATTEMPT -gt 1 ] || {GO}")
    worker = spool.start("work", "--json")
    started(spool, job)
    wait_until(lambda: log_of(spool), 20)
    worker.send_signal(signal.SIGSTOP)
    kill(asked(spool, verb, job, PATIENT))
    kill(worker)
    spool.work(check=0)
    assert ended(spool.show(job)["attempts"][0]) == ("abandoned", "worker_crash", "worker died")
    if verb == "cancel":
        assert (spool.state(job), log_of(spool)) == ("canceled", ["run"])
        assert told(spool, job) == ["added", "claimed", "reaped", "canceled"]
    else:
        assert (spool.state(job), log_of(spool)) == ("done", ["run", "run"])
        assert told(spool, job)[:4] == ["added", "claimed", "reaped", "retried"]


def test_a_second_signal_honours_a_request_too(spool):
    job = spool.add("-c", DEAF)
    worker = spool.start("work", "--json", "--grace", "1")
    started(spool, job, b"up")
    caller = ask(spool, "cancel", job, limits=PATIENT)
    seen(spool, job)
    spool.stop(worker)
    assert caller.wait(20) == 0
    assert spool.state(job) == "canceled"
    assert worker.returncode == 0
