"""Every command that an answer names is a real one: a shell runs it where and as the answer was given.

tests/support.py looks at the words of each command in each answer of the whole suite; here they are run.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys

import pytest
from support import (
    PATIENCE,
    ROOT,
    STANDARD_TOOLS,
    check_command,
    clean_env,
    commands_in,
    document,
    wait_until,
    words_of,
)

from spoolctl import registry
from spoolctl.errors import ERRORS
from spoolctl.store import faults
from spoolctl.store.gate import locked

REFUSALS = ("INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_COMMAND", "UNKNOWN_FLAG")


class Ran:
    """How a line ended."""

    def __init__(self, line: str, status: int, out: bytes, err: bytes) -> None:
        self.line, self.status = line, status
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"<{self.line!r} exit={self.status} out={self.out[-500:]!r} err={self.err[-500:]!r}>"


class Desk:
    """A shell beside a queue, where `spoolctl` is a command."""

    def __init__(self, spool, folder):
        self.spool = spool
        self.done = set()  # lines of help that were run
        shim = folder / "spoolctl"
        shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spoolctl "$@"\n')
        shim.chmod(0o755)
        self.env = clean_env(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")

    def paste(self, line, meanwhile=None, **env):
        """The line to its end; `meanwhile` makes an end of it when it waits."""
        process = subprocess.Popen(
            ["sh", "-c", line], cwd=self.spool.path, env=self.env | env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            if meanwhile:
                meanwhile(process)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return Ran(line, process.returncode, out, err)

    def follow(self, line, *, exits=(0,), **env):
        """Run what an answer names, and give a waiting call what it waits for."""
        words = words_of(line)
        if words[-1] == "--help" and line in self.done:
            return None
        meanwhile = None
        if words[:2] == ["spoolctl", "wait"]:
            meanwhile = self._settle
        elif words[:2] == ["spoolctl", "events"] and "--wait" in words:
            meanwhile = self._happen
        elif words[:2] == ["spoolctl", "work"] and not {"--drain", "--once"} & set(words):
            meanwhile = self._serve
        ran = self.paste(line, meanwhile, **env)
        if words[-1] == "--help":
            self.done.add(line)
        assert not any(f"spoolctl: {code}:" in ran.err for code in REFUSALS), ran
        assert ran.status in exits, ran
        assert "not found" not in ran.err.replace("NOT_FOUND", ""), ran
        return ran

    def _settle(self, process):
        self.spool.work()

    def _happen(self, process):
        self.spool.add("--after", "1h", "--", "true")

    def _serve(self, process):
        """A worker that stays: it takes what is due, and leaves when it is told."""
        worker = wait_until(lambda: self.spool.json("status")["workers"], 30, "a worker to come")[0]
        wait_until(lambda: not self.spool.json("list", "--state", "queued,running")["count"])
        os.kill(worker["pid"], signal.SIGTERM)


@pytest.fixture
def desk(spool, tmp_path_factory):
    return Desk(spool, tmp_path_factory.mktemp("bin"))


def refusal(answer, code):
    assert answer.error is not None and answer.error["code"] == code, answer
    return answer.error["remediation"]


def ended(spool, script, *words):
    job = spool.add("--max-retries", "0", *words, "-c", script)
    spool.work()
    return job


def running(spool):
    """(job, worker) of a command that runs."""
    job = spool.add("--priority", "9", "-c", "exec sleep 100")
    worker = spool.start("work", "--max-jobs", "1", "--grace", "0.5")
    wait_until(lambda: [attempt for attempt in spool.show(job)["attempts"] if attempt["pid"]])
    return job, worker


# --- refusals: by code ------------------------------------------------------------------------------------

MISTAKES = [
    ("INVALID_INPUT", ["--json", "--", "list"]), ("INVALID_INPUT", ["list", "--db"]),
    ("INVALID_INPUT", ["--db", "--json", "list"]), ("INVALID_INPUT", ["list", "--limit", "x"]),
    ("INVALID_INPUT", ["list", "--limit", "1", "--limit", "2"]), ("INVALID_INPUT", ["list", "--limit"]),
    ("INVALID_INPUT", ["list", "stray"]), ("INVALID_INPUT", ["--json=1"]),
    ("INVALID_INPUT", ["list", "--json=1"]), ("INVALID_INPUT", ["--json", "--json"]),
    ("INVALID_INPUT", ["add", "--after", "1h", "--at", "0", "true"]),
    ("INVALID_INPUT", ["events", "--max-events", "1"]), ("INVALID_INPUT", ["add", "echo", "--queue", "x"]),
    ("INVALID_INPUT", ["add", "--priority", "x", "echo", "-n"]), ("INVALID_INPUT", ["show", "x"]),
    ("INVALID_INPUT", ["add", "--key-scope", "kept", "true"]), ("INVALID_INPUT", ["add", "--", ""]),
    ("INVALID_INPUT", ["add", "--env", "NOT_SET_ANYWHERE", "true"]),
    ("INVALID_INPUT", ["add", "--tag", "a=1", "--tag", "a=2", "true"]),
    ("INVALID_INPUT", ["add", *(f"--tag=t{n}=" for n in range(17)), "true"]),
    ("INVALID_INPUT", ["add", "--from", "no/such/file"]), ("INVALID_INPUT", ["add", "--from", "."]),
    ("INVALID_INPUT", ["retry", "1", "--tag", "a"]), ("INVALID_INPUT", ["cancel", "1", "--queue", "x"]),
    ("INVALID_INPUT", ["feedback", *map(str, range(1, 102))]), ("INVALID_INPUT", ["list", "--db", "."]),
    ("MISSING_REQUIRED", []), ("MISSING_REQUIRED", ["add"]), ("MISSING_REQUIRED", ["add", "-c", ""]),
    ("MISSING_REQUIRED", ["prune"]), ("MISSING_REQUIRED", ["wait"]),
    ("UNKNOWN_COMMAND", ["lisst"]), ("UNKNOWN_COMMAND", ["frobnicate"]),
    ("UNKNOWN_FLAG", ["list", "--limt", "1"]), ("UNKNOWN_FLAG", ["--bogus", "list"]),
    ("UNKNOWN_FLAG", ["config-validate", "--db", "x"]), ("UNKNOWN_FLAG", ["--db", "x", "--help"]),
    ("NOT_FOUND", ["show", "99"]), ("NOT_FOUND", ["show", "key:k"]), ("NOT_FOUND", ["wait", "--tag", "t"]),
    ("NOT_FOUND", ["cancel", "7-9"]), ("NOT_FOUND", ["show", "key:-k it's", "--queue", "a"]),
    ("NOT_FOUND", ["events", "--job", "key:k"]),
]  # fmt: skip


def test_what_follows_a_mistake_is_a_command_that_runs(spool, desk):
    for code, words in MISTAKES:
        words = words if any(word.startswith("--json") for word in words) else ["--json", *words]
        line = refusal(spool.run(*words), code)
        desk.follow(line)
        text = spool.run(*(word for word in words if word != "--json"))
        if text.json is None:
            assert f"hint: {line}\n" in text.err
    assert spool.files() == []


@pytest.mark.parametrize("db", [False, True])
def test_a_command_whose_dashes_were_forgotten_is_added_by_the_line_that_has_them(spool, desk, db):
    before = ["--db", "my queue.db"] if db else []
    line = refusal(
        spool.run(*before, "add", "--json", "--note", "it's", "echo", "-n", "a b"), "INVALID_INPUT"
    )
    ran = desk.follow(line)
    assert "job 1 added" in ran.out
    job = spool.json("show", *before, "1")["job"]
    assert (job["argv"], job["note"]) == (["echo", "-n", "a b"], "it's")


def test_a_line_of_a_file_is_shown_and_a_pipe_is_not_read_again(spool, desk):
    (spool.path / "-jobs.txt").write_text('true\n{"argv": ["a"], "nope": 1}\n')
    line = refusal(spool.run("add", "--json", "--from=-jobs.txt"), "INVALID_INPUT")
    assert desk.follow(line).out == '{"argv": ["a"], "nope": 1}\n'
    answer = spool.run("add", "--json", "--from", "-", stdin=b"{}\n")
    desk.follow(refusal(answer, "INVALID_INPUT"))
    assert answer.error["message"] == "--from: line 1: needs argv or command; nothing was added"
    two = '{"argv": ["a"], "key": "k"}\n{"argv": ["b"], "key": "k"}\n'
    (spool.path / "two").write_text(two)
    line = refusal(spool.run("add", "--json", "--from", "two"), "IDEMPOTENCY_CONFLICT")
    assert desk.follow(line).out == two.splitlines(keepends=True)[1]


def test_raw_output_of_both_streams_is_put_right(spool, desk):
    job = ended(spool, "echo out; echo err >&2")
    answer = spool.run("output", f"{job}", "--raw", "--stream", "both", check=1)
    line = answer.err.splitlines()[1].removeprefix("hint: ")
    assert desk.follow(line).out == "out\n"


def test_a_bad_config_is_shown_and_accepted_when_it_is_mended(spool, desk):
    folder = spool.path / ".spoolctl"
    folder.mkdir()
    config = folder / "config.json"
    for text in ("[", '{"version": 2}', '{"defaults": {"timeout": "x"}}', '{"nope": 1}'):
        config.write_text(text)
        words = ["config-validate"] if "nope" in text else ["list", "--db", "q.db"]
        answer = spool.run(*words, "--json")
        assert desk.paste(refusal(answer, "INVALID_INPUT")).out == text
        if words[0] == "list":
            assert "; spoolctl config-validate checks it" in answer.error["message"]
        config.write_text("{}")
        assert desk.paste("spoolctl config-validate").status == 0
    config.unlink()
    config.mkdir()
    line = refusal(spool.run("status", "--json"), "INVALID_INPUT")
    assert desk.paste(line).status == 0


def test_an_empty_variable_and_a_directory_that_is_gone_are_left_behind(spool, desk):
    line = refusal(spool.run("list", "--json", env={"SPOOLCTL_DB": ""}), "INVALID_INPUT")
    desk.follow(f"{line} && spoolctl list", SPOOLCTL_DB="")
    gone = spool.path / "gone"
    gone.mkdir()
    script = "cd gone && rmdir ../gone && spoolctl list --json; true"
    line = refusal_of(desk.paste(script), "INVALID_INPUT")
    desk.follow(f"{line} && ls -d .")


def refusal_of(ran, code):
    error = document(ran.out, "list")["errors"][0]
    assert error["code"] == code, ran
    return error["remediation"]


FAULTS = {
    "LOCKED": "database is locked", "DB_READONLY": "attempt to write a readonly database",
    "DISK_FULL": "database or disk is full", "DB_INVALID": "database disk image is malformed",
    "INTERNAL": "something that nobody has seen",
}  # fmt: skip


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_the_surroundings_names_where_to_look(spool, desk, monkeypatch, code):
    from spoolctl.verbs import cancel as verb

    path = str(spool.path / "deep er" / "q.db")
    errors = [
        faults.translated(sqlite3.OperationalError(FAULTS[code]), at) for at in (path, str(spool.db), "")
    ]
    errors += [locked(path)] if code == "LOCKED" else []
    for error in errors:

        def broken(args, ctx, error=error):
            raise error

        monkeypatch.setattr(verb, "run", broken)
        line = refusal(spool.run("cancel", "--json", "1"), code)
        desk.follow(line)
        assert line.startswith("df -h") if code == "DISK_FULL" else line.startswith("spoolctl ")


def test_a_damaged_database_and_an_answer_that_nobody_could_be_given(spool, desk):
    spool.db.parent.mkdir()
    spool.db.write_bytes(b"garbage" * 1000)
    for words in (["list"], ["add", "--", "true"], ["work", "--drain"]):
        line = refusal(spool.run(words[0], "--json", "--db", str(spool.db), *words[1:]), "DB_INVALID")
        assert line == f"spoolctl doctor --db {spool.db}"
        desk.follow(line, exits=(3,))
    spool.db.unlink()
    if os.path.exists("/dev/full"):
        ran = desk.paste("spoolctl add -- true >/dev/full")
        hint = next(line for line in ran.err.splitlines() if line.startswith("hint: "))
        assert "1" in desk.follow(hint.removeprefix("hint: ")).out


# --- refusals that are confirmed --------------------------------------------------------------------------


def test_a_prune_that_is_not_confirmed_names_the_one_that_only_looks(spool, desk):
    job = ended(spool, "true")
    line = refusal(spool.run("prune", "--json", "--older-than", "0.00001"), "SAFETY_BLOCK")
    assert "would delete 1 job, 1 attempt" in desk.follow(line).out
    assert spool.state(job) == "done"


@pytest.mark.parametrize("words", [["1"], ["--state", "running"], ["1", "2"]])
def test_a_running_job_is_canceled_by_the_line_that_confirms_it(spool, desk, words):
    job, _ = running(spool)
    code = "SAFETY_BLOCK"
    if "2" in words:
        spool.json("cancel", str(spool.add()))
        code = "CONFLICT"
    ran = desk.follow(refusal(spool.run("cancel", "--json", *words), code))
    assert ran.out.endswith((" canceled\n", "skipped\n  job 2: CONFLICT\n", "is being ended\n")), ran
    spool.wait_for(job, "canceled")


def test_a_running_job_is_queued_again_by_the_line_that_forces_it(spool, desk):
    job, _ = running(spool)
    desk.follow(refusal(spool.run("retry", "--json", str(job)), "SAFETY_BLOCK"))
    spool.wait_for(job, "queued")


def test_a_queue_that_others_may_write_is_closed_by_the_line(spool, desk):
    job = spool.add()
    spool.db.chmod(0o666)
    line = refusal(spool.cli("work", "--json", "--drain"), "SAFETY_BLOCK")
    desk.follow(line)
    assert spool.work().data["executed"] == 1
    assert spool.state(job) == "done"


def test_what_belongs_to_somebody_else_is_only_shown(spool, desk):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    spool.add()
    os.chown(spool.db, 61_235, 61_235)
    desk.follow(refusal(spool.cli("work", "--json", "--drain"), "SAFETY_BLOCK"))
    os.chown(spool.db, 0, 0)
    os.chown(spool.db.parent, 61_235, 61_235)
    desk.follow(refusal(spool.cli("list", "--json"), "SAFETY_BLOCK"))
    os.chown(spool.db.parent, 0, 0)


# --- refusals by state ------------------------------------------------------------------------------------


def test_a_wait_that_ran_out_is_taken_up_again(spool, desk):
    jobs = [spool.add() for _ in range(3)]
    spool.json("cancel", str(jobs[1]))
    answer = spool.run("wait", "--json", *map(str, jobs), "--timeout", "0.01")
    line = refusal(answer, "TIMEOUT")
    assert line == f"spoolctl wait {jobs[0]} {jobs[2]} --timeout 0.01  # settled: {jobs[1]}"
    desk.follow(line.replace("0.01", "60"))
    assert [spool.state(job) for job in jobs] == ["done", "canceled", "done"]
    served = spool.add()
    [warning] = spool.run("wait", "--json", str(served), "--timeout", "0.01").json["warnings"]
    desk.follow(warning["message"])
    assert spool.state(served) == "done"


def test_a_wait_for_more_than_a_line_can_name_is_repeated_as_it_was(spool, desk):
    (spool.path / "jobs").write_text("true\n" * 50)
    spool.json("add", "--from", "jobs", "--tag", "run=1", "--after", "1h")
    spool.json("cancel", *map(str, range(2, 51, 2)))
    answer = spool.run("wait", "--json", "--tag", "run=1", "--timeout", "0.01")
    line = refusal(answer, "TIMEOUT")
    assert line == "spoolctl wait --tag run=1 --timeout 0.01  # settled: 25"
    assert desk.follow(line, exits=(4,)).err.startswith("spoolctl: ")


def test_a_line_that_is_too_long_to_be_run_is_never_given(spool, desk):
    """What runs a line hands it on as one argument: sh -c takes 128 KiB."""
    keys = [f"{number:0250}" for number in range(450)]
    tag = f"--tag=t={'x' * 1000}"
    lines = "".join(f'{{"argv": ["true"], "key": "{key}"}}\n' for key in keys)
    spool.json("add", "--from", "-", tag, "--after", "1h", stdin=lines.encode())
    named = [f"key:{key}" for key in keys]
    job, _ = running(spool)
    line = refusal(spool.run("retry", "--json", *named, str(job)), "CONFLICT")
    assert str(job) in desk.follow(line).out and line == "spoolctl list --state running"
    line = refusal(spool.run("cancel", "--json", *named, "--running"), "SAFETY_BLOCK")
    assert str(job) in desk.follow(line).out and line == "spoolctl list --state running"
    spool.json("cancel", *map(str, range(2, 451, 2)))
    line = refusal(spool.run("wait", "--json", *named, "--timeout", "0.01"), "TIMEOUT")
    assert desk.follow(line).out and line == "spoolctl status  # settled: 225"
    desk.follow(refusal(spool.run("prune", "--json", "--older-than", "1h", *[tag] * 110), "SAFETY_BLOCK"))
    page = spool.run("list", "--json", "--limit", "1", *[tag] * 110, check=0)
    assert page.meta["pagination"]["truncated"] and page.commands == ["spoolctl show 450"]
    assert spool.run("list", "--limit", "1", *[tag] * 110).err.endswith(": the same with --before 450\n")


def test_ids_that_follow_one_another_are_a_range_in_the_line_that_repeats_them(spool):
    ids = ["9", "8", "key:a", "1", "2", "3", "5", "6", "20-22", *map(str, range(30, 30_030))]
    line = refusal(spool.run("cancel", "--json", *ids, "--running"), "SAFETY_BLOCK")
    assert line == "spoolctl cancel 9 8 key:a 1-3 5 6 20-22 30-30029 --running --yes"


def test_what_a_state_forbids_leads_on(spool, desk):
    dead, done, canceled = ended(spool, "exit 3"), ended(spool, "true"), spool.add("--after", "1h", "true")
    spool.json("cancel", str(canceled))
    delayed = spool.add("--after", "1h", "--key", "k", "true")
    for job in (dead, done):
        desk.follow(refusal(spool.run("cancel", "--json", str(job)), "CONFLICT"))
    desk.follow(refusal(spool.run("cancel", "--json", str(dead), str(done)), "CONFLICT"))
    desk.follow(refusal(spool.run("add", "--json", "--key", "k", "--", "false"), "IDEMPOTENCY_CONFLICT"))
    desk.follow(refusal(spool.run("output", "--json", str(done), "--attempt", "9"), "NOT_FOUND"))
    desk.follow(refusal(spool.run("retry", "--json", str(delayed)), "CONFLICT"))
    assert spool.show(delayed)["job"]["next_run_at"] <= spool.show(delayed)["job"]["created_at"] + 3599
    desk.follow(refusal(spool.run("retry", "--json", str(delayed)), "CONFLICT"))
    desk.follow(refusal(spool.run("cancel", "--json", str(canceled)), "CONFLICT"))
    assert spool.state(canceled) == "queued"


WORDS = ["printf", "%s|", "a b", "it's", "$HOME `x`", "n\nl\n", "\ttab\x1b[1m", "100% \\n !! \\",
         "\u00e9\u2028", "--json", "", "spoolctl work --db x"]  # fmt: skip
ROW = (
    "argv, cwd, env, timeout, max_retries, max_crashes, backoff_base, priority, queue, note, key, max_output"
)


def rows(spool, *jobs):
    conn = sqlite3.connect(spool.db)
    conn.text_factory = bytes
    try:
        found = [conn.execute(f"SELECT {ROW} FROM jobs WHERE id = ?", (job,)).fetchone() for job in jobs]
        tags = [
            conn.execute("SELECT key, value FROM job_tags WHERE job_id = ? ORDER BY key", (job,)).fetchall()
            for job in jobs
        ]
    finally:
        conn.close()
    return list(zip(found, tags, strict=True))


@pytest.mark.parametrize("db", [False, True])
def test_the_line_that_repeats_a_done_job_makes_it_again_byte_for_byte(spool, desk, db):
    (spool.path / ".spoolctl").mkdir(mode=0o700)
    config = {"defaults": {"timeout": 600, "max_retries": 7, "queue": "own"}}
    (spool.path / ".spoolctl" / "config.json").write_text(json.dumps(config))
    at = ["--db", str(spool.db)] if db else []
    words = WORDS if sys.platform == "darwin" else [*WORDS, os.fsdecode(b"\xff\xc3")]
    env = {"TOLD": "a\nb"}
    spool.run(
        "add", "--json", *at, "--timeout", "300", "--max-retries", "3", "--backoff-base", "0.00001",
        "--priority", "-3", "--note=-n\n\n", "--key", "k", "--tag", "t=x\ny", "--env", "TOLD", "--max-output",
        "1M", "--", *words, env=env, check=0,
    )  # fmt: skip
    spool.work()
    line = refusal(spool.run("retry", "--json", *at, "1", env=env), "CONFLICT")
    hint = spool.run("retry", *at, "1", env=env).err.splitlines()[1]
    assert hint == f"hint: {line}"
    assert words_of(line)[-len(words) :] == words
    desk.follow(line, **env)
    first, second = rows(spool, 1, 2)
    assert first == second
    assert spool.json("output", "1")["streams"]["stdout"]["size_bytes"] == sum(
        len(os.fsencode(word)) + 1 for word in words[2:]
    )


def test_a_job_whose_variables_are_not_here_is_shown_and_their_values_are_not(spool, desk):
    spool.run("add", "--json", "--env", "SECRET=hidden word", "--", "true", check=0)
    spool.work()
    for env in ({}, {"SECRET": "another"}):
        answer = spool.run("retry", "--json", "1", env=env)
        assert "hidden" not in answer.text and "SECRET" in answer.error["message"]
        assert refusal(answer, "CONFLICT") == "spoolctl show 1"
    assert "--env SECRET " in refusal(
        spool.run("retry", "--json", "1", env={"SECRET": "hidden word"}), "CONFLICT"
    )
    desk.follow("spoolctl show 1")


def test_a_command_too_long_for_a_line_is_shown(spool, desk):
    ended(spool, ": " + "x" * 120_000)
    desk.follow(refusal(spool.run("retry", "--json", "1"), "CONFLICT"))


# --- what fits a success ----------------------------------------------------------------------------------


def named(answer):
    """Every command of a successful answer, once."""
    assert answer.json is not None and answer.json["ok"], answer
    return list(dict.fromkeys(commands_in(answer.json, answer.argv[0])))


def all_run(desk, answer):
    for line in named(answer):
        desk.follow(line, exits=(0, 6))


def test_what_follows_an_added_job_can_be_run(spool, desk):
    answer = spool.run("add", "--json", "--", "true")
    assert len(named(answer)) == 4
    desk.follow(answer.json["warnings"][-1]["message"])
    assert spool.state(1) == "done"
    all_run(desk, answer)
    many = spool.run("add", "--json", "--from", "-", stdin=b"true\ntrue\n")
    all_run(desk, many)
    assert spool.state(3) == "done"


def test_what_follows_a_look_can_be_run(spool, desk):
    dead = ended(spool, "exit 3")
    done = ended(spool, "head -c 100000 /dev/zero")
    assert done == 2
    pruned = ["prune", "--older-than", "0.00001", "--state", "canceled,done", "--keep", "0", "--dry-run"]
    for words in (["list", "--limit", "1", "--since", "0.25"], ["events", "--limit", "1"],
                  ["wait", str(dead)], ["wait", str(done)], ["output", str(done)], ["output", str(dead)],
                  ["config-show"], ["config-validate"], pruned):  # fmt: skip
        answer = spool.run(words[0], "--json", *words[1:])
        assert named(answer), answer
        all_run(desk, answer)
    assert spool.json("list")["count"] >= 1  # the line behind a dry run has deleted the job that was done
    assert [job["id"] for job in spool.json("list")["jobs"] if job["id"] <= 2] == [dead]
    spool.add("-q", "other", "true")
    answer = spool.run("status", "--json")
    assert len(named(answer)) == 4
    (spool.path / ".spoolctl" / "config.json").write_text('{"nope": 1}')
    [line] = named(spool.run("config-show", "--json"))
    assert "nope" in desk.paste(line).err


STATES = ["queued", "delayed", "running", "done", "dead", "timed out", "canceled", "orphaned"]


@pytest.mark.parametrize("state", STATES)
def test_what_follows_a_look_at_a_job_can_be_run(spool, desk, state):
    worker = None
    if state in ("running", "orphaned"):
        job = spool.add("-c", "while [ ! -e go ]; do sleep 0.05; done")
        worker = spool.start("work", "--max-jobs", "1")
        wait_until(lambda: [attempt for attempt in spool.show(job)["attempts"] if attempt["pid"]])
        if state == "orphaned":
            worker.kill()
            worker.wait()
            wait_until(lambda: "work" in spool.json("feedback", str(job))["remediation"])
            (spool.path / "go").touch()
    elif state in ("done", "dead", "timed out"):
        scripts = {"done": "true", "dead": "exit 3", "timed out": "exec sleep 50"}
        job = ended(spool, scripts[state], *(("--timeout", "0.3") if state == "timed out" else ()))
    else:
        job = spool.add("--after", "1h" if state == "delayed" else "0", "true")
        if state == "canceled":
            spool.json("cancel", str(job))
    looks = [spool.run(verb, "--json", str(job)) for verb in ("feedback", "show")]
    lines = list(dict.fromkeys(line for answer in looks for line in named(answer)))
    assert lines or state == "canceled"
    first = looks[0].data["remediation"]
    if state == "running":
        (spool.path / "go").touch()
    if first is not None:
        desk.follow(first, exits=(0,))
        if state in ("queued", "running", "orphaned"):  # the next step was taken
            assert spool.state(job) == "done"
    for line in lines:
        if line == first or words_of(line)[1] == "wait" and state == "delayed":
            continue  # nothing makes that one due
        over = state in ("queued", "running", "orphaned") and words_of(line)[1] == "cancel"
        desk.follow(line, exits=(0, 5, 6) if over else (0, 6))
    if worker is not None:
        worker.wait(PATIENCE)


def test_what_follows_a_change_can_be_run(spool, desk):
    job = spool.add()
    canceled = spool.run("cancel", "--json", str(job))
    all_run(desk, canceled)
    assert spool.state(job) == "queued"  # the line was `retry`
    spool.json("cancel", str(job))
    all_run(desk, spool.run("retry", "--json", str(job)))
    assert spool.state(job) == "done"


ODD = [
    "-x.db",
    "--json=1",
    "it's a `b` $HOME %s \\ !.db",
    "li\nne.db",
    "end\n",
    "\u00e9\u2028.db",
    os.fsdecode(b"\xff"),
]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_database_of_any_name_is_found_by_the_lines(spool, desk, name):
    if sys.platform == "darwin" and "\udcff" in name:
        pytest.skip("this system has no such names")
    answer = spool.run("add", "--json", f"--db={name}", "--", "echo", "spoolctl", "list")
    job = spool.run("feedback", "--json", f"--db={name}", "1").data
    desk.follow(job["remediation"])
    for line in [*answer.commands, refusal(spool.run("retry", "--json", f"--db={name}", "1"), "CONFLICT")]:
        desk.follow(line)
    again = spool.json("list", f"--db={name}")["jobs"][0]
    assert (again["id"], again["argv"]) == (2, ["echo", "spoolctl", "list"])


def literals():
    """(place, text, whether it is whole) of each remediation that is written out in the code."""
    for path in sorted((ROOT / "spoolctl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            at = {"invalid": 1, "SpoolctlError": 2, "Replaced": 2, "Migrated": 2}.get(node.func.id)
            if at is None or len(node.args) <= at:
                continue
            given = node.args[at]
            if isinstance(given, ast.JoinedStr):
                given = given.values[0]
            if isinstance(given, ast.Constant):
                yield f"{path.name}:{node.lineno}", given.value, given is node.args[at]


def test_what_is_written_out_in_the_code_is_a_command():
    found = list(literals())
    assert len(found) > 40
    for place, text, whole in found:
        assert text.split()[0] in ("spoolctl", *STANDARD_TOOLS), (place, text)
        if whole:
            check_command(text)


def test_every_code_that_a_verb_declares_has_its_situation_here():
    declared = {code for name in registry.VERBS for code in registry.load(name).SPEC.errors}
    here = {code for code, _ in MISTAKES} | set(FAULTS)
    here |= {"SAFETY_BLOCK", "TIMEOUT", "CONFLICT", "IDEMPOTENCY_CONFLICT"}
    assert declared - {"UNKNOWN_COMMAND"} <= here <= set(ERRORS)
