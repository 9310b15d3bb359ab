"""retry: lists and selectors, keys, requests to an owner; single jobs by state are in test_states.py."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys

import pytest
from support import alive, clean_env, wait_until, words_of

pytestmark = pytest.mark.usefixtures("patient")


def retry(spool, *words, **options):
    return spool.run("retry", "--json", *words, **options)


def dead(spool, *words, script="exit 3"):
    job = spool.add("--max-retries", "0", *words, "-c", script)
    lane = words[words.index("-q") + 1] if "-q" in words else "default"
    spool.work("--queue", lane, check=0)
    assert spool.state(job) == "dead"
    return job


def canceled(spool, *words):
    job = spool.add(*words, "true")
    spool.run("cancel", str(job), check=0)
    return job


def running(spool, *words, script="echo $$ >pid; exec sleep 100", grace="0.5"):
    """(job, worker, pid of the command) of a job that runs; the worker takes no second one."""
    (spool.path / "pid").unlink(missing_ok=True)
    job = spool.add("--priority", "9", *words, "-c", script)
    worker = spool.start("work", "--max-jobs", "1", "--grace", grace, "--worker-id", "w")
    wait_until(lambda: [a for a in spool.show(job)["attempts"] if a["pid"]])
    wait_until(lambda: (spool.path / "pid").exists() and (spool.path / "pid").read_text().strip())
    return job, worker, int((spool.path / "pid").read_text())


# --- one job ----------------------------------------------------------------------------------------------


def test_a_dead_job_is_fresh_again_and_runs(spool):
    job = dead(spool, "--key", "k", "--tag", "a=1", "--note", "n", script='[ "$SPOOLCTL_ATTEMPT" != 1 ]')
    answer = retry(spool, str(job), check=0)
    assert answer.data == {"job_id": job, "state": "queued"}
    assert answer.commands == [f"spoolctl wait {job}"]
    assert spool.run("list", "--json", "--key", "k", check=0).data["jobs"][0]["tags"] == {"a": "1"}
    spool.work(check=0)
    shown = spool.show(job)
    assert (shown["job"]["state"], shown["job"]["attempts"]) == ("done", 0)
    assert [a["attempt_no"] for a in shown["attempts"]] == [1, 2]


def test_text(spool):
    job, other = dead(spool), dead(spool)
    assert spool.run("retry", str(job), check=0).text == f"job {job} is queued\n"
    assert spool.run("retry", "--all-dead", check=0).text == "1 of 1 job queued again\n"
    assert spool.run("retry", str(job), str(canceled(spool)), check=0).text == (
        f"1 of 2 jobs queued again, 1 skipped\n  job {job}: CONFLICT\n"
    )
    answer = spool.run("retry", str(other), check=5)
    assert answer.err == (
        f"spoolctl: CONFLICT: job {other} is queued already, and due\nhint: spoolctl show {other}\n"
    )
    delayed = spool.add("--after", "1h", "--", "true")
    answer = spool.run("retry", str(delayed), check=5)
    assert answer.err == (
        f"spoolctl: CONFLICT: job {delayed} is queued already\nhint: spoolctl retry {delayed} --now\n"
    )


@pytest.mark.parametrize(
    "words", [("--", "printf", "%s|", "a b", "it's", "$HOME", "n\nl"), ("-c", "echo a | wc -c")]
)
def test_the_line_that_repeats_a_done_job_makes_the_same_job(spool, words):
    (spool.path / "a dir").mkdir()
    job = spool.add("--cwd", "a dir", "-q", "lane", *words)
    spool.work("--queue", "lane", check=0)
    refused = retry(spool, str(job), check=5)
    line = words_of(refused.error["remediation"])
    assert line[:2] == ["spoolctl", "add"]
    again = spool.run("add", "--json", *line[2:], cwd="/", env={"SPOOLCTL_DB": str(spool.db)}, check=0)
    names = ("argv", "cwd", "queue")
    old, new = (spool.show(n)["job"] for n in (job, again.data["job_id"]))
    assert [old[name] for name in names] == [new[name] for name in names]


def test_a_hurried_job_keeps_its_budget_and_runs_now(spool):
    job = spool.add("--backoff-base", "1h", "--backoff-max", "1h", "--max-retries", "1", "-c", "exit 3")
    spool.work("--once", check=0)
    assert spool.show(job)["job"]["attempts"] == 1
    retry(spool, str(job), "--now", check=0)
    spool.work(check=0)
    assert (spool.state(job), spool.show(job)["job"]["attempts"]) == ("dead", 2)
    assert retry(spool, str(spool.add()), "--now", check=5).error["remediation"] == "spoolctl show 2"


def test_an_active_job_that_holds_the_key_is_named(spool):
    old = dead(spool, "--key", "k")
    new = spool.add("--key", "k", "true")
    answer = retry(spool, str(old), check=5)
    assert answer.code == "IDEMPOTENCY_CONFLICT"
    assert answer.error["detail"]["job_id"] == new
    assert answer.error["remediation"] == f"spoolctl show {new}"
    assert spool.state(old) == "dead"
    spool.run("cancel", str(new), check=0)
    assert retry(spool, "key:k", check=0).data["job_id"] == new  # the newest of the key
    assert retry(spool, str(old), check=5).error["detail"]["job_id"] == new


# --- several ----------------------------------------------------------------------------------------------


def test_a_list_says_what_became_of_each(spool):
    a, b = dead(spool), canceled(spool)
    done = spool.add("true")
    spool.work(check=0)
    late, due = spool.add("--after", "1h", "true"), spool.add()
    answer = retry(spool, str(due), f"{a}-{done}", str(late), str(a), check=0)
    assert answer.data == {
        "matched": 5,
        "retried": 2,
        "job_ids": [a, b],
        "skipped": [{"job_id": n, "code": "CONFLICT"} for n in (done, late, due)],
    }
    answer = retry(spool, str(late), str(due), "--now", check=0)
    assert (answer.data["job_ids"], [s["job_id"] for s in answer.data["skipped"]]) == ([late], [due])


def test_two_dead_jobs_of_one_key_only_the_first_is_queued(spool):
    first, second = dead(spool, "--key", "k"), dead(spool, "--key", "k")
    answer = retry(spool, "--all-dead", check=0)
    assert answer.data == {
        "matched": 2,
        "retried": 1,
        "job_ids": [first],
        "skipped": [{"job_id": second, "code": "IDEMPOTENCY_CONFLICT"}],
    }


def test_named_jobs_of_which_none_changes_are_a_conflict(spool):
    a, b = spool.add(), spool.add("--after", "1h", "true")
    for words in ((str(a), str(b)), (f"{a}-{b}",)):
        answer = retry(spool, *words, check=5)
        assert answer.code == "CONFLICT"
        assert answer.error["detail"] == {"skipped": [{"job_id": n, "code": "CONFLICT"} for n in (a, b)]}


def test_all_dead_of_a_lane_and_of_a_tag(spool):
    a = dead(spool, "--tag", "run=1")
    b = dead(spool, "--tag", "run=2", "--tag", "x=")
    c = dead(spool, "-q", "other", "--tag", "run=1")
    gone = canceled(spool, "--tag", "run=1")
    assert retry(spool, "--all-dead", "--tag", "run=9", check=0).data["matched"] == 0
    assert retry(spool, "--all-dead", "--queue", "other", "--tag", "x", check=0).data["matched"] == 0
    assert retry(spool, "--all-dead", "--tag", "run=2", "--tag", "x", check=0).data["job_ids"] == [b]
    assert retry(spool, "--all-dead", "--queue", "other", check=0).data["job_ids"] == [c]
    assert retry(spool, "--all-dead", check=0).data["job_ids"] == [a]
    assert retry(spool, "--all-dead", check=0).data == {
        "matched": 0,
        "retried": 0,
        "job_ids": [],
        "skipped": [],
    }
    assert spool.state(gone) == "canceled"


def test_unknown_jobs_are_all_named_before_anything_changes(spool):
    a = dead(spool)
    answer = retry(spool, str(a), "77", "key:nobody", "80-90", f"{a}-99", check=1)
    assert answer.code == "NOT_FOUND"
    assert answer.error["detail"] == {"missing": [77, "key:nobody", "80-90"]}
    assert spool.state(a) == "dead"
    assert retry(spool, "5", check=1).error["detail"] == {"missing": [5]}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "MISSING_REQUIRED"),
        (("--queue", "x"), "MISSING_REQUIRED"),
        (("--tag", "x"), "MISSING_REQUIRED"),
        (("1", "--tag", "x"), "INVALID_INPUT"),
        (("1", "--queue", "x"), "INVALID_INPUT"),
        (("1", "--all-dead"), "INVALID_INPUT"),
        (("--all-dead", "--force"), "INVALID_INPUT"),
        (("--all-dead", "--now"), "INVALID_INPUT"),
        (("1", "--unverified"), "INVALID_INPUT"),
        (("2-1",), "INVALID_INPUT"),
    ],
)
def test_what_is_refused_without_a_look(spool, words, code):
    assert retry(spool, *words, check=1).code == code
    assert spool.files() == []


def test_a_missing_database_is_not_made(spool):
    assert retry(spool, "1", check=1).code == "NOT_FOUND"
    assert retry(spool, "--all-dead", check=0).data["matched"] == 0
    assert spool.files() == []


def test_a_key_is_looked_for_in_the_lane_that_is_named(spool):
    here, there = canceled(spool, "--key", "k", "-q", "a"), canceled(spool, "--key", "k", "-q", "b")
    assert retry(spool, "key:k", "--queue", "a", check=0).data["job_id"] == here
    assert retry(spool, "key:k", check=0).data["job_id"] == there
    assert retry(spool, "key:k", "--queue", "c", check=1).error["detail"] == {"missing": ["key:k"]}


# --- running jobs -----------------------------------------------------------------------------------------


def test_a_running_job_is_only_ended_with_force_and_the_line_says_so(spool):
    job, worker, pid = running(spool)
    refused = retry(spool, str(job), check=2)
    assert refused.error["remediation"] == f"spoolctl retry {job} --force"
    assert alive(pid)
    words = shlex.split(refused.error["remediation"])[1:]
    answer = spool.run(words[0], "--json", *words[1:], check=0)
    assert answer.data == {"job_id": job, "state": "queued"}
    assert not alive(pid)
    assert worker.wait(20) == 0
    shown = spool.show(job)
    assert shown["events"][-1]["event"] == "retried"
    assert shown["events"][-1]["detail"] == "forced"
    assert [(a["state"], a["failure_reason"], a["error"]) for a in shown["attempts"]] == [
        ("abandoned", "canceled", "force-retried")
    ]


def test_a_list_skips_running_jobs_without_force_and_takes_them_with_it(spool):
    a = dead(spool)
    job, _, pid = running(spool)
    answer = retry(spool, str(a), str(job), check=0)
    assert answer.data["skipped"] == [{"job_id": job, "code": "SAFETY_BLOCK"}]
    assert retry(spool, str(a), str(job), check=5).error["detail"]["skipped"][1]["code"] == "SAFETY_BLOCK"
    answer = retry(spool, f"{a}-{job}", "--force", check=0)
    assert (answer.data["job_ids"], answer.data["skipped"]) == ([job], [{"job_id": a, "code": "CONFLICT"}])
    assert not alive(pid)


def test_the_budget_is_fresh_after_force(spool):
    script = "echo $$ >pid; [ $SPOOLCTL_ATTEMPT -lt 2 ] && exit 3; exec sleep 100"
    job = spool.add("--backoff-base", "0", "-c", script)
    spool.start("work", "--grace", "0.5", "--max-jobs", "2")
    wait_until(lambda: [a for a in spool.show(job)["attempts"] if a["attempt_no"] == 2 and a["pid"]])
    assert spool.show(job)["job"]["attempts"] == 1
    retry(spool, str(job), "--force", check=0)
    assert spool.show(job)["job"]["attempts"] == 0


def test_a_command_that_will_not_end_is_ended_after_the_grace(spool):
    job, _, pid = running(
        spool, script="trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done", grace="0.3"
    )
    assert retry(spool, str(job), "--force", check=0).data["state"] == "queued"
    assert not alive(pid)


def test_a_dead_owner_is_reaped_and_force_gives_a_fresh_budget(spool):
    job, worker, pid = running(spool)
    worker.kill()
    worker.wait()
    assert retry(spool, str(job), "--force", check=0).data["state"] == "queued"
    assert not alive(pid)
    shown = spool.show(job)
    assert [e["event"] for e in shown["events"][2:]] == ["reaped", "retried"]
    assert (shown["job"]["attempts"], shown["job"]["crashes"]) == (0, 0)


def test_a_stopped_owner_is_silent_and_the_caller_ends_the_tree_itself(spool):
    job, worker, pid = running(spool, grace="0.3")
    os.kill(worker.pid, signal.SIGSTOP)
    assert retry(spool, str(job), "--force", check=0).data["state"] == "queued"
    assert not alive(pid)
    os.kill(worker.pid, signal.SIGCONT)
    assert worker.wait(20) == 0
    shown = spool.show(job)
    assert [e["event"] for e in shown["events"]] == ["added", "claimed", "retried"]
    assert shown["job"]["state"] == "queued"


def estrange(spool):
    """Make the owner one that nobody here can judge: another pid namespace, and no lock of its own."""
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE workers SET pid_ns = 'elsewhere', lock_dev = 0, lock_ino = 0")
    db.commit()
    db.close()


def test_an_owner_that_cannot_be_judged_is_left_alone_unless_it_is_asked_for(spool):
    job, worker, pid = running(spool, grace="0.3")
    worker.kill()
    worker.wait()
    estrange(spool)
    answer = retry(spool, str(job), "--force", check=5)
    assert answer.code == "CONFLICT"
    assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "unverifiable_owner"}
    assert alive(pid)
    assert [e["event"] for e in spool.show(job)["events"]] == ["added", "claimed"]
    assert retry(spool, f"{job}-{job}", "--force", check=5).error["detail"]["skipped"][0]["job_id"] == job

    answer = retry(spool, str(job), "--force", "--unverified", check=0)
    assert (answer.data["state"], answer.warnings) == ("queued", ["UNVERIFIABLE_OWNER"])
    assert not alive(pid)
    assert spool.show(job)["events"][-1]["detail"] == "forced, unverified"


STOPS = """
import os, signal
from spoolctl import hooks
hooks.AT["claimed"] = lambda: os.kill(os.getpid(), signal.SIGSTOP)
from spoolctl.__main__ import main
main()
"""


def test_an_owner_that_stopped_before_the_command_started_is_not_overtaken(spool):
    job = spool.add("-c", "echo ran >>log")
    words = [sys.executable, "-c", STOPS, "work", "--once", "--json"]
    worker = subprocess.Popen(words, cwd=spool.path, env=clean_env(), stdout=subprocess.DEVNULL)
    try:
        spool.wait_for(job, "running")
        wait_until(lambda: stopped(worker.pid))
        answer = retry(spool, str(job), "--force", check=5)
        assert answer.error["detail"] == {"job_id": job, "state": "running", "why": "not_started"}
        os.kill(worker.pid, signal.SIGCONT)
        assert worker.wait(20) == 0
    finally:
        worker.kill()
        worker.wait()
    assert (spool.path / "log").read_text() == "ran\n"
    assert (spool.state(job), [e["event"] for e in spool.show(job)["events"]]) == (
        "done",
        ["added", "claimed", "succeeded"],
    )


def stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def test_the_line_that_repeats_a_job_stands_values_that_begin_with_a_dash(spool):
    job = spool.add("--note=--env", "--tag", "a=b c", "--priority", "-3", "--", "true")
    spool.work("--once", check=0)
    line = spool.run("retry", "--json", str(job), check=5).error["remediation"]
    words = shlex.split(line)[1:]
    again = spool.run(words[0], "--json", *words[1:], check=0)
    first, second = (spool.show(one)["job"] for one in (job, again.data["job_id"]))
    assert all(first[name] == second[name] for name in ("argv", "note", "tags", "priority", "cwd"))
