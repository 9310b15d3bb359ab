"""feedback: the verdict in every state, its remediation, and lists of verdicts."""

from __future__ import annotations

import os
import signal

import pytest
from looking import started
from support import wait_until

NOTHING = {"exit_code": None, "signal": None, "failure_reason": None, "last_error": None}
NO_STREAM = {"tail": "", "size_bytes": 0, "truncated": False, "missing": False, "path": None}


def feedback(spool, job, *flags):
    return spool.json("feedback", str(job), *flags)


def ended(spool, script, *flags):
    """A job that has run `script` and is not tried again."""
    job = spool.add("--max-retries", "0", *flags, "-c", script)
    spool.work(*(("--queue", "a.b") if "a.b" in flags else ()), check=0)
    return job


def running(spool, script="sleep 100", *flags):
    job = spool.add("-c", script)
    worker = spool.start("work", "--json", "--grace", "0.2", *flags)
    started(spool, job)
    return job, worker


def facts(data):
    return {key: data[key] for key in NOTHING}


# --- by state ---------------------------------------------------------------------------------------------


def test_a_fresh_job_has_no_facts_and_needs_a_worker(spool):
    job = spool.add()
    assert feedback(spool, job) == {
        "job_id": job,
        "state": "queued",
        "terminal": False,
        "succeeded": None,
        **NOTHING,
        "attempts": 0,
        "attempts_total": 0,
        "latest_attempt_no": None,
        "duration_seconds": None,
        "remediation": "spoolctl work --drain",
        "streams": {"stdout": NO_STREAM, "stderr": NO_STREAM},
    }
    other = spool.add("--queue", "builds", "--", "true")
    assert feedback(spool, other)["remediation"] == "spoolctl work --drain --queue builds"
    later = spool.add("--after", "1h", "--", "true")
    assert feedback(spool, later)["remediation"] == f"spoolctl show {later}"


def test_remediation_and_commands_repeat_the_database(spool):
    job = spool.add()
    answer = spool.run("feedback", "--db", str(spool.db), str(job), "--json", cwd="/", check=0)
    assert answer.data["remediation"] == f"spoolctl work --db {spool.db} --drain"
    assert answer.commands[0] == answer.data["remediation"]
    assert all(f"--db {spool.db}" in command for command in answer.commands)


def test_a_live_worker_makes_it_a_matter_of_waiting(spool):
    first, worker = running(spool)
    job = spool.add()
    assert feedback(spool, job)["remediation"] == f"spoolctl wait {job}"
    data = feedback(spool, first)
    assert (facts(data), data["remediation"]) == (NOTHING, f"spoolctl wait {first}")
    assert (data["terminal"], data["succeeded"], data["latest_attempt_no"]) == (False, None, 1)
    assert (data["attempts_total"], data["duration_seconds"]) == (1, None)

    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    # A child that had not reached exec holds the dead worker's lock for a moment more.
    wait_until(lambda: feedback(spool, first)["remediation"] == "spoolctl work --drain")
    assert feedback(spool, job)["remediation"] == "spoolctl work --drain"
    spool.run("cancel", str(first), "--running", "--yes", check=0)


def test_done_is_exit_0_and_nothing_to_do(spool):
    job = ended(spool, "echo fine")
    data = feedback(spool, job)
    assert (data["terminal"], data["succeeded"], data["remediation"]) == (True, True, None)
    assert facts(data) == {**NOTHING, "exit_code": 0}
    assert (data["attempts"], data["attempts_total"]) == (0, 1)
    assert data["duration_seconds"] >= 0
    assert data["streams"]["stdout"]["tail"] == "fine\n"


def test_dead_has_the_last_attempts_facts_and_its_output_is_next(spool):
    job = spool.add("--max-retries", "1", "--backoff-base", "0s", "-c", "echo $SPOOLCTL_ATTEMPT; exit 7")
    spool.work(check=0)
    data = feedback(spool, job)
    assert (data["terminal"], data["succeeded"]) == (True, False)
    assert facts(data) == {
        "exit_code": 7,
        "signal": None,
        "failure_reason": "process_exit",
        "last_error": "exit 7",
    }
    assert (data["attempts"], data["attempts_total"], data["latest_attempt_no"]) == (2, 2, 2)
    assert data["streams"]["stdout"]["tail"] == "2\n"
    assert data["remediation"] == f"spoolctl output {job}"

    spool.run("retry", str(job), check=0)
    data = feedback(spool, job)
    assert (data["state"], facts(data)) == ("queued", NOTHING)
    assert (data["attempts"], data["attempts_total"]) == (0, 2)
    assert data["remediation"] == "spoolctl work --drain"
    assert data["streams"]["stdout"]["tail"] == "2\n"


def test_in_backoff_the_last_attempt_speaks(spool):
    job = spool.add("--backoff-base", "1h", "--backoff-max", "1h", "-c", "exit 7")
    spool.cli("work", "--once", "--json", check=0)
    data = feedback(spool, job)
    assert (data["state"], data["terminal"], data["succeeded"]) == ("queued", False, None)
    assert (data["exit_code"], data["failure_reason"]) == (7, "process_exit")
    assert data["remediation"] == f"spoolctl show {job}"
    spool.run("cancel", str(job), check=0)
    data = feedback(spool, job)
    assert (data["state"], data["exit_code"], data["remediation"]) == ("canceled", 7, None)


def test_canceled_while_running_says_so(spool):
    job, worker = running(spool, "trap 'exit 9' TERM; sleep 100 & wait")
    spool.run("cancel", str(job), "--running", "--yes", check=0)
    spool.wait_for(job, "canceled")
    data = feedback(spool, job)
    assert (data["terminal"], data["succeeded"], data["remediation"]) == (True, False, None)
    assert (data["failure_reason"], data["last_error"]) == ("canceled", "canceled")
    spool.stop(worker)


# --- reasons people ask about -----------------------------------------------------------------------------


def test_a_timeout_names_the_flag(spool):
    job = ended(spool, "sleep 50", "--timeout", "0.2", "--queue", "a.b")
    answer = spool.run("feedback", str(job), "--json", check=0)
    assert answer.data["failure_reason"] == "timeout"
    assert answer.data["remediation"] == f"spoolctl output {job}"
    again = f"spoolctl add --queue a.b --timeout 0.4 --max-retries 0 --cwd {spool.path} -- sh -c 'sleep 50'"
    assert answer.commands == [f"spoolctl output {job}", again, f"spoolctl retry {job}"]
    assert "--timeout" in spool.run("feedback", str(job), check=0).text


def test_a_sigkill_is_named_and_explained(spool):
    job = ended(spool, "kill -9 $$")
    data = feedback(spool, job)
    assert (data["signal"], data["exit_code"], data["last_error"]) == ("SIGKILL", -9, "signal SIGKILL")
    text = spool.run("feedback", str(job), check=0).text
    assert "signal SIGKILL" in text and "OOM killer" in text


def test_a_sigkill_of_ours_is_explained_by_its_reason(spool):
    job = spool.add("--timeout", "2", "--max-retries", "0", "-c", "trap '' TERM; sleep 50 & wait; sleep 50")
    spool.work("--grace", "0.1")
    assert feedback(spool, job)["signal"] == "SIGKILL"
    text = spool.run("feedback", str(job), check=0).text
    assert "--timeout" in text and "OOM" not in text


def test_a_command_that_is_not_there_is_explained(spool):
    job = spool.add("--max-retries", "0", "--", "/nowhere/at-all")
    shell = ended(spool, "no-such-command-anywhere")
    assert feedback(spool, job)["failure_reason"] == "spawn_failed"
    assert "could not be started" in spool.run("feedback", str(job), check=0).text
    assert "not found" in spool.run("feedback", str(shell), "--stream", "stdout", check=0).text


# --- streams ----------------------------------------------------------------------------------------------


def test_tails_are_cut_at_characters_and_say_what_is_missing(spool):
    job = ended(spool, "printf 'aaa😀bbb'; printf x >&2")
    folder = spool.output / str(job) / "1"
    streams = feedback(spool, job, "--tail-bytes", "5")["streams"]
    assert streams["stdout"] == {
        "tail": "bbb",
        "size_bytes": 10,
        "truncated": True,
        "missing": False,
        "path": str(folder / "stdout"),
    }
    (folder / "stderr").unlink()
    (folder / "stdout").write_bytes(b"")
    streams = feedback(spool, job)["streams"]
    assert [streams["stdout"][key] for key in ("size_bytes", "missing")] == [0, False]
    assert [streams["stderr"][key] for key in ("tail", "size_bytes", "missing")] == ["", 0, True]
    assert f"{folder}/stderr is gone" in spool.run("feedback", str(job), check=0).text


def test_text_shows_the_stream_that_is_asked_for_and_escapes_controls(spool):
    job = ended(spool, r"printf 'out\033[31m\nmore\n'; echo err >&2")
    text = spool.run("feedback", str(job), check=0).text
    assert text.endswith("--- stdout ---\nout\\x1b[31m\nmore\n--- stderr ---\nerr\n")
    text = spool.run("feedback", str(job), "--stream", "stderr", check=0).text
    assert text.endswith("s\n--- stderr ---\nerr\n") and "stdout" not in text
    assert set(feedback(spool, job, "--stream", "stderr")["streams"]) == {"stdout", "stderr"}


# --- several ----------------------------------------------------------------------------------------------


def test_several_ids_a_range_or_a_selector_give_a_list(spool):
    jobs = [spool.add("--tag", "run=1", "--queue", "a", "--", "true") for _ in range(3)]
    other = spool.add("--tag", "run=2", "--key", "k", "--", "true")
    assert "jobs" not in feedback(spool, other)
    assert feedback(spool, "key:k") == feedback(spool, other)

    def ids(*tokens):
        return [data["job_id"] for data in spool.json("feedback", *tokens)["jobs"]]

    assert ids("3", "1", "3") == [3, 1]
    assert ids("2-90") == [2, 3, 4]
    assert ids("--tag", "run") == [1, 2, 3, 4]
    assert ids("--tag", "run=1", "--queue", "a") == jobs
    assert ids("--queue", "nowhere") == []
    assert spool.run("feedback", "--queue", "nowhere", check=0).text == "no jobs\n"
    assert spool.run("feedback", "1", "2", check=0).text.count("never ran") == 2


def test_a_hundred_jobs_are_the_most(spool):
    spool.run("add", "--from", "-", stdin=b"true\n" * 101, check=0)
    for tokens in (["1-101"], ["--queue", "default"], [str(n) for n in range(1, 102)]):
        answer = spool.run("feedback", "--json", *tokens, check=1)
        assert answer.code == "INVALID_INPUT"
        assert answer.error["detail"]["maximum"] == 100
    assert len(spool.json("feedback", "2-101")["jobs"]) == 100


@pytest.mark.parametrize("tokens", [["99"], ["1", "99"], ["key:none"], ["50-60"]])
def test_what_names_no_job_is_not_found(spool, tokens):
    spool.add()
    assert spool.run("feedback", "--json", *tokens, check=1).code == "NOT_FOUND"


def test_something_must_be_asked_for(spool):
    assert spool.run("feedback", "--json", check=1).code == "MISSING_REQUIRED"
    assert spool.run("feedback", "1", "--tag", "a", "--json", check=1).code == "INVALID_INPUT"
    for value in ("0", "65537"):
        assert spool.run("feedback", "1", "--tail-bytes", value, "--json", check=1).code == "INVALID_INPUT"
