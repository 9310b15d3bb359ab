"""cancel: lists and selectors, requests to an owner, trees; single jobs by state are in test_states.py."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3

import pytest
from support import alive, finish, wait_until

from spoolctl import store
from spoolctl.work import pursuit

pytestmark = pytest.mark.usefixtures("patient")


def cancel(spool, *words, **options):
    return spool.run("cancel", "--json", *words, **options)


def done(spool, *words):
    job = spool.add(*words, "true")
    spool.work(check=0)
    return job


def running(spool, *words, script="echo $$ >pid; exec sleep 100", grace="0.5"):
    """(job, worker, pid of the command) of a job that runs; the worker takes no second one."""
    (spool.path / "pid").unlink(missing_ok=True)
    job = spool.add("--priority", "9", *words, "-c", script)
    worker = spool.start("work", "--max-jobs", "1", "--grace", grace, "--json")
    wait_until(lambda: [a for a in spool.show(job)["attempts"] if a["pid"]])
    wait_until(lambda: (spool.path / "pid").exists() and (spool.path / "pid").read_text().strip())
    return job, worker, int((spool.path / "pid").read_text())


# --- queued -----------------------------------------------------------------------------------------------


def test_a_queued_job_never_runs(spool):
    job = spool.add("--key", "k", "-c", "touch ran")
    answer = cancel(spool, str(job), check=0)
    assert answer.data == {
        "job_id": job,
        "state": "canceled",
        "was_running": False,
        "cancel_requested": False,
    }
    assert answer.commands == [f"spoolctl retry {job}"]
    spool.work(check=0)
    assert not (spool.path / "ran").exists()
    assert spool.run("cancel", str(spool.add("--key", "k", "true")), check=0).text == "job 2 canceled\n"


@pytest.mark.parametrize(
    ("state", "line"), [("done", "feedback"), ("dead", "feedback"), ("canceled", "retry")]
)
def test_what_is_over_is_a_conflict_with_a_way_on(spool, state, line):
    job = spool.add("--max-retries", "0", "-c", "exit 3" if state == "dead" else "true")
    if state == "canceled":
        cancel(spool, str(job), check=0)
    spool.work(check=0)
    answer = cancel(spool, str(job), check=5)
    assert answer.error["detail"] == {"job_id": job, "state": state}
    assert answer.error["remediation"] == f"spoolctl {line} {job}"
    words = shlex.split(answer.error["remediation"])[1:]
    spool.run(*words, check=0)


# --- several ----------------------------------------------------------------------------------------------


def test_a_list_says_what_became_of_each(spool):
    over = done(spool)
    a, b = spool.add(), spool.add("--after", "1h", "true")
    answer = cancel(spool, str(b), f"{over}-{a}", str(a), check=0)
    assert answer.data == {
        "matched": 3,
        "canceled": 2,
        "pending": 0,
        "job_ids": [a, b],
        "skipped": [{"job_id": over, "code": "CONFLICT"}],
    }
    answer = cancel(spool, f"{over}-{b}", check=5)
    assert answer.error["detail"] == {"skipped": [{"job_id": n, "code": "CONFLICT"} for n in (over, a, b)]}
    assert spool.run("cancel", f"{spool.add()}-99", check=0).text == "1 of 1 job canceled\n"
    twelve = [spool.add() for _ in range(12)]
    spool.json("cancel", *map(str, twelve))
    last = spool.add()
    lines = spool.run("cancel", f"{twelve[0]}-{last}", check=0).text.splitlines()
    assert lines[0] == "1 of 13 jobs canceled, 12 skipped"
    assert lines[1:] == [*(f"  job {job}: CONFLICT" for job in twelve[:10]), "  and 2 more"]


def test_selectors_take_queued_jobs_only(spool):
    over = done(spool, "--tag", "run=1")
    a = spool.add("--tag", "run=1", "true")
    b = spool.add("--tag", "run=2", "--tag", "x=", "true")
    c = spool.add("--tag", "run=1", "-q", "other", "true")
    d = spool.add("-q", "other", "--after", "1h", "true")
    assert cancel(spool, "--tag", "run=9", check=0).data["matched"] == 0
    assert cancel(spool, "--tag", "run=2", "--tag", "x", "--queue", "default", check=0).data["job_ids"] == [b]
    assert cancel(spool, "--tag", "run", check=0).data["job_ids"] == [a, c]
    assert cancel(spool, "--queue", "other", "--state", "queued", check=0).data["job_ids"] == [d]
    nothing = cancel(spool, "--state", "queued", check=0).data
    assert nothing == {"matched": 0, "canceled": 0, "pending": 0, "job_ids": [], "skipped": []}
    assert spool.state(over) == "done"


def test_selectors_take_running_jobs_when_it_is_confirmed(spool):
    job, worker, pid = running(spool, "--tag", "run=1")
    waiting = spool.add("--tag", "run=1", "true")
    other = spool.add("true")
    assert cancel(spool, "--tag", "run=1", check=0).data["job_ids"] == [waiting]
    assert alive(pid)
    assert cancel(spool, "--state", "running", check=2).code == "SAFETY_BLOCK"
    assert cancel(spool, "--tag", "run=2", "--running", "--yes", check=0).data["matched"] == 0
    answer = cancel(spool, "--state", "running", "--running", "--yes", check=0)
    assert answer.data == {"matched": 1, "canceled": 1, "pending": 0, "job_ids": [job], "skipped": []}
    assert not alive(pid)
    assert finish(worker, check=0).exit == 0
    assert spool.state(other) == "queued"


def test_a_list_skips_running_jobs_unless_it_is_confirmed(spool):
    job, _, pid = running(spool)
    a, b = spool.add(), spool.add()
    answer = cancel(spool, str(job), str(a), check=0)
    assert answer.data["skipped"] == [{"job_id": job, "code": "SAFETY_BLOCK"}]
    assert cancel(spool, str(job), str(a), check=5).error["detail"]["skipped"] == [
        {"job_id": job, "code": "SAFETY_BLOCK"},
        {"job_id": a, "code": "CONFLICT"},
    ]
    refused = cancel(spool, str(job), str(a), check=5)
    assert refused.error["remediation"] == f"spoolctl cancel {job} {a} --running --yes"
    assert alive(pid)
    assert cancel(spool, f"{job}-{b}", "--running", "--yes", check=0).data["job_ids"] == [job, b]
    assert not alive(pid)


def test_unknown_jobs_are_all_named_before_anything_changes(spool):
    a = spool.add()
    answer = cancel(spool, str(a), "77", "key:nobody", "80-90", f"{a}-99", check=1)
    assert answer.error["detail"] == {"missing": [77, "key:nobody", "80-90"]}
    assert spool.state(a) == "queued"


def test_many_are_canceled_in_short_transactions(spool, monkeypatch):
    spool.run("add", "--from", "-", stdin=b"true\n" * 3000, check=0)
    begun = []
    trace = store.sqlite3.connect

    def connect(*args, **options):
        db = trace(*args, **options)
        db.set_trace_callback(lambda text: begun.append(text) if text.startswith("BEGIN IMM") else None)
        return db

    monkeypatch.setattr(store.sqlite3, "connect", connect)
    assert cancel(spool, "--queue", "default", check=0).data["canceled"] == 3000
    assert len(begun) >= 6
    assert spool.json("status")["counts"]["canceled"] == 3000


# --- the order of refusal ---------------------------------------------------------------------------------


def test_running_without_yes_is_blocked_before_any_look(spool):
    for words in (("1",), ("key:nobody",), ("--queue", "x"), ("--state", "running")):
        assert cancel(spool, *words, "--running", check=2).code == "SAFETY_BLOCK"
    assert spool.files() == []
    spool.db.parent.mkdir(mode=0o700)
    spool.db.write_bytes(b"no database" * 100)
    assert cancel(spool, "1", "--running", check=2).code == "SAFETY_BLOCK"
    assert cancel(spool, "1", "--running", "--yes", check=3).code == "DB_INVALID"
    assert cancel(spool, "1", "--running", "--queue", "a b", check=1).code == "INVALID_INPUT"
    assert cancel(spool, "1", "--running", "--state", "queued", check=1).code == "INVALID_INPUT"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "MISSING_REQUIRED"),
        (("--running", "--yes"), "MISSING_REQUIRED"),
        (("1", "--tag", "x"), "INVALID_INPUT"),
        (("1", "--queue", "x"), "INVALID_INPUT"),
        (("1", "--state", "queued"), "INVALID_INPUT"),
        (("--state", "done"), "INVALID_INPUT"),
        (("0",), "INVALID_INPUT"),
    ],
)
def test_what_is_refused_without_a_look(spool, words, code):
    assert cancel(spool, *words, check=1).code == code
    assert spool.files() == []
    (spool.path / "bad.db").write_bytes(b"no database" * 100)
    assert cancel(spool, *words, "--db", "bad.db", check=1).code == code


def test_the_confirming_line_can_be_run_whatever_its_values_look_like(spool):
    spool.add("--tag=-y=its x", "--", "true")
    refused = cancel(spool, "--tag=-y=its x", "--state", "queued", "--running", check=2)
    assert refused.error["remediation"] == ("spoolctl cancel '--tag=-y=its x' --state queued --running --yes")
    words = shlex.split(refused.error["remediation"])[1:]
    assert spool.run(words[0], "--json", *words[1:], check=0).data["job_ids"] == [1]


def test_a_missing_database_is_not_made(spool):
    assert cancel(spool, "1", check=1).code == "NOT_FOUND"
    assert cancel(spool, "1", "--running", "--yes", check=1).code == "NOT_FOUND"
    assert cancel(spool, "--queue", "x", check=0).data["matched"] == 0
    assert spool.files() == []


# --- running ----------------------------------------------------------------------------------------------


def test_a_running_job_is_only_ended_when_it_is_confirmed_and_the_line_says_so(spool):
    job, worker, pid = running(spool, "--key", "k")
    refused = cancel(spool, str(job), check=2)
    assert refused.error["remediation"] == f"spoolctl cancel {job} --running --yes"
    assert alive(pid)
    words = shlex.split(refused.error["remediation"])[1:]
    answer = spool.run(words[0], "--json", *words[1:], check=0)
    assert answer.data == {"job_id": job, "state": "canceled", "was_running": True, "cancel_requested": True}
    assert not alive(pid)
    assert finish(worker, check=0).exit == 0
    shown = spool.show(job)
    assert [e["event"] for e in shown["events"]] == ["added", "claimed", "canceled"]
    assert shown["job"]["last_failure_reason"] == "canceled"
    assert shown["attempts"][0]["state"] == "canceled"
    assert spool.add("--key", "k", "true") == job + 1


def test_the_key_is_held_until_the_tree_is_gone(spool):
    last = "until [ -e go ]; do sleep 0.02; done"
    script = f"trap '{last}; exit' TERM; echo $$ >pid; while :; do sleep 0.1; done"
    job, _, pid = running(spool, "--key", "k", script=script, grace="30")
    call = spool.start("cancel", "--json", str(job), "--running", "--yes")
    wait_until(lambda: spool.show(job)["job"]["cancel_requested_at"])
    assert spool.run("add", "--json", "--key", "k", "true", check=5).code == "IDEMPOTENCY_CONFLICT"
    (spool.path / "go").touch()
    assert finish(call, check=0).data["state"] == "canceled"
    assert not alive(pid)
    assert spool.add("--key", "k", "true") == job + 1


def test_a_command_that_outlives_the_wait_is_followed_through_later(spool):
    job, worker, pid = running(
        spool, script="trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done", grace="600"
    )
    os.kill(worker.pid, signal.SIGSTOP)  # seen by nobody: the caller acts after a second
    call = spool.start("cancel", "--json", str(job), "--running", "--yes")
    wait_until(lambda: spool.show(job)["job"]["cancel_requested_at"])
    call.send_signal(signal.SIGTERM)
    assert call.wait(20) == -signal.SIGTERM
    assert spool.state(job) == "running"
    os.kill(worker.pid, signal.SIGCONT)
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)
    os.kill(pid, signal.SIGKILL)
    assert spool.wait_for(job, "canceled") == "canceled"


def test_a_dead_owner_is_no_obstacle(spool):
    job, worker, pid = running(spool)
    worker.kill()
    worker.wait()
    answer = cancel(spool, str(job), "--running", "--yes", check=0)
    assert answer.data["state"] == "canceled"
    assert not alive(pid)
    shown = spool.show(job)
    assert [e["event"] for e in shown["events"][2:]] == ["reaped", "canceled"]
    assert shown["attempts"][0]["state"] == "abandoned"
    assert shown["job"]["crashes"] == 1


def test_an_owner_that_cannot_be_judged_is_left_alone_unless_it_is_asked_for(spool):
    job, worker, pid = running(spool, grace="0.3")
    worker.kill()
    worker.wait()
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE workers SET pid_ns = 'elsewhere', lock_dev = 0, lock_ino = 0")
    db.commit()
    db.close()
    answer = cancel(spool, str(job), "--running", "--yes", check=5)
    assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "unverifiable_owner"}
    assert alive(pid)
    assert spool.show(job)["job"]["cancel_requested_at"] is None
    answer = cancel(spool, str(job), "--running", "--yes", "--unverified", check=0)
    assert (answer.data["state"], answer.warnings) == ("canceled", ["UNVERIFIABLE_OWNER"])
    assert not alive(pid)


def test_the_outcome_of_an_attempt_that_ends_meanwhile_is_kept_and_the_job_is_canceled(spool, monkeypatch):
    monkeypatch.setattr(pursuit, "SILENT_AFTER", 60)  # the worker ends it, however long that takes
    script = "trap 'exit 7' TERM; echo $$ >pid; while :; do sleep 0.05; done"
    job, _, _ = running(spool, script=script, grace="20")
    assert cancel(spool, str(job), "--running", "--yes", check=0).data["state"] == "canceled"
    shown = spool.show(job)
    assert shown["job"]["state"] == "canceled"
    assert shown["attempts"][0]["exit_code"] == 7
    assert spool.json("feedback", str(job))["exit_code"] == 7


def test_two_cancels_at_once_both_succeed(spool):
    job, _, pid = running(spool)
    calls = [spool.start("cancel", "--json", str(job), "--running", "--yes") for _ in range(4)]
    answers = [finish(call) for call in calls]
    for answer in answers:
        assert answer.exit == 0 or answer.error["detail"] == {"job_id": job, "state": "canceled"}
    assert any(answer.exit == 0 for answer in answers)
    assert not alive(pid)
    assert [e["event"] for e in spool.show(job)["events"]] == ["added", "claimed", "canceled"]
