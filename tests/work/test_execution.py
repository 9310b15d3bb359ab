"""SPEC 4 and 5: how a command is run, what its end means, and when a worker takes the next one.

Real workers, real processes. Several jobs share a worker where they do not disturb each other.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Answer, alive, checked, clean_env, command, wait_until

from spoolctl.contract.backoff import delay

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ALL_SIGNALS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""


def printed(spool, job_id, attempt_no=1, stream="stdout"):
    return (spool.output / str(job_id) / str(attempt_no) / stream).read_bytes()


def last(spool, job_id):
    return spool.show(job_id)["attempts"][-1]


def story(spool, job_id):
    """(event, detail) in the order of the ledger."""
    return [(event["event"], event["detail"]) for event in spool.show(job_id)["events"]]


def told(spool, job_id):
    return [event for event, _ in story(spool, job_id)]


def rows(spool, sql):
    with closing(sqlite3.connect(spool.db)) as db:
        return db.execute(sql).fetchall()


def change(spool, sql, values=()):
    with closing(sqlite3.connect(spool.db)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")  # of damage that no statement can do
        db.execute(sql, values)


def worked(spool, *prefix, tokens=("--drain",), env=None, **popen):
    """A worker started through another command, which it replaces, to its end."""
    words = ["work", "--json", *tokens]
    environ = clean_env(**(env or {}))
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    done = subprocess.run([*prefix, *command(*words)], cwd=spool.path, env=environ, timeout=60, **options)
    return checked(Answer(words, done.returncode, done.stdout, done.stderr), environ)


def through(script):
    """A prefix of a command line: the shell does this first."""
    return ("sh", "-c", f'{script}; exec "$@"', "sh")


def pid_in(path: Path) -> int:
    """The process number that a job has written to a file."""
    return int(wait_until(lambda: path.exists() and path.read_text().strip(), 20, f"{path}"))


def most_at_once(spool):
    """The most jobs that ran at the same time, by the ledger."""
    running = most = 0
    for (event,) in rows(spool, "SELECT event FROM job_events ORDER BY id"):
        running += {"claimed": 1, "succeeded": -1, "failed": -1}.get(event, 0)
        most = max(most, running)
    return most


# --- environment ------------------------------------------------------------------------------------------


def variables(spool, job_id, attempt_no=1):
    """What `env -0` printed."""
    words = printed(spool, job_id, attempt_no).split(b"\0")
    return dict(word.decode("utf-8", "surrogateescape").split("=", 1) for word in words if word)


def test_the_environment_is_the_workers_then_the_captured_then_the_jobs_then_ours(spool):
    path = os.environ["PATH"]
    submitter = {"PATH": f"/submitter:{path}", "VIRTUAL_ENV": "/submitter/venv", "ONLY": "submitter"}
    plain = spool.add("--", "env", "-0", env=submitter)
    given_ = spool.add(
        "--env", "SHARED=job", "--env", "VIRTUAL_ENV=/job", "--env", "EMPTY=", "--env", "EQ=a=b",
        "--env", "SPOOLCTL_DB=/job.db", "--queue", "default", "--", "env", "-0", env=submitter,
    )  # fmt: skip
    worker = {
        "PATH": f"/worker:{path}", "VIRTUAL_ENV": "/worker", "SHARED": "worker", "BYTES": "a\udcffb",
        "SPOOLCTL_DB": str(spool.db), "SPOOLCTL_JOB_ID": "999", "SPOOLCTL_ATTEMPT_TOKEN": "stale",
    }  # fmt: skip
    spool.work(env=worker, check=0)
    first, second = variables(spool, plain), variables(spool, given_)
    assert first["PATH"] == second["PATH"] == submitter["PATH"]
    assert (first["VIRTUAL_ENV"], second["VIRTUAL_ENV"]) == ("/submitter/venv", "/job")
    assert (first["SHARED"], second["SHARED"]) == ("worker", "job")
    assert (second["EMPTY"], second["EQ"]) == ("", "a=b")
    assert "ONLY" not in first
    assert first["BYTES"] == "a\udcffb"
    assert (first["SPOOLCTL_DB"], second["SPOOLCTL_DB"]) == (str(spool.db), "/job.db")
    for job_id, seen in ((plain, first), (given_, second)):
        ours = {name: value for name, value in seen.items() if name.startswith("SPOOLCTL_")}
        token = rows(spool, f"SELECT token FROM attempts WHERE job_id = {job_id}")[0][0]
        del ours["SPOOLCTL_DB"]
        assert ours == {
            "SPOOLCTL_JOB_ID": str(job_id),
            "SPOOLCTL_ATTEMPT": "1",
            "SPOOLCTL_QUEUE": "default",
            "SPOOLCTL_JOB_DB": str(spool.db),
            "SPOOLCTL_ATTEMPT_TOKEN": token,
        }
    assert first["SPOOLCTL_ATTEMPT_TOKEN"] != second["SPOOLCTL_ATTEMPT_TOKEN"]


def test_the_config_says_what_is_captured_and_a_relative_db_reaches_the_job_absolute(spool):
    spool.db.parent.mkdir()
    config = {"version": 1, "capture_env": ["MINE"]}
    (spool.db.parent / "config.json").write_text(json.dumps(config))
    job = spool.add(
        "--max-retries", "1", "--backoff-base", "0", "-c", "env -0; exit 3", env={"MINE": "submitter"}
    )
    spool.work("--db", ".spoolctl/queue.db", env={"MINE": "worker", "PATH": os.environ["PATH"]}, check=0)
    first, second = variables(spool, job, 1), variables(spool, job, 2)
    assert first["MINE"] == "submitter"
    assert first["SPOOLCTL_JOB_DB"] == str(spool.db)
    assert "SPOOLCTL_DB" not in first
    assert (first["SPOOLCTL_ATTEMPT"], second["SPOOLCTL_ATTEMPT"]) == ("1", "2")
    assert first["SPOOLCTL_ATTEMPT_TOKEN"] != second["SPOOLCTL_ATTEMPT_TOKEN"]


def test_a_job_may_add_follow_up_work(spool):
    line = f'{sys.executable} -m spoolctl add --db "$SPOOLCTL_JOB_DB" -- echo follow-up'
    spool.add("--cwd", "/", "-c", line)
    assert spool.work(check=0).data["succeeded"] == 2
    assert printed(spool, 2) == b"follow-up\n"


# --- descriptors, session, signals, umask -----------------------------------------------------------------


@linux
def test_a_job_has_three_descriptors_and_a_session_of_its_own(spool):
    fds = spool.add("--", "ls", "/proc/self/fd")  # 3 is that of the listing
    stdin = spool.add("--", "readlink", "/proc/self/fd/0")
    me = spool.add("--", "cat", "/proc/self/stat")
    worked(spool, *through("exec 7</dev/null 9>left-open"))
    assert printed(spool, fds).split() == [b"0", b"1", b"2", b"3"]
    assert printed(spool, stdin) == b"/dev/null\n"
    fields = printed(spool, me).split()
    assert int(fields[0]) == int(fields[4]) == int(fields[5]) == last(spool, me)["pid"]


@linux
def test_a_worker_with_its_own_descriptors_closed_runs_jobs_as_ever(spool):
    fds = spool.add("-c", "echo out; echo err >&2; exec ls /proc/self/fd")
    closed = through("exec <&- >&- 2>&-")
    subprocess.run([*closed, *command("work", "--drain")], cwd=spool.path, env=clean_env(), timeout=60)
    assert printed(spool, fds).split() == [b"out", b"0", b"1", b"2", b"3"]
    assert printed(spool, fds, stream="stderr") == b"err\n"
    assert spool.state(fds) == "done"


@linux
@pytest.mark.parametrize(
    "prefix",
    [
        ("nohup",),
        through("trap '' HUP INT QUIT USR1 USR2 PIPE ALRM TTOU CHLD"),
        (sys.executable, "-c", ALL_SIGNALS),
    ],
    ids=["nohup", "ignored", "blocked"],
)
def test_jobs_see_default_and_unblocked_signals_however_the_worker_was_started(spool, prefix):
    job = spool.add("--", "cat", "/proc/self/status")
    dies = spool.add("--max-retries", "0", "-c", "kill -QUIT $$; echo survived")
    worked(spool, *prefix)
    status = dict(line.split(b":\t", 1) for line in printed(spool, job).splitlines() if b":\t" in line)
    assert {name: int(status[name], 16) for name in (b"SigIgn", b"SigBlk", b"SigCgt")} == {
        b"SigIgn": 0,
        b"SigBlk": 0,
        b"SigCgt": 0,
    }
    assert last(spool, dies)["signal"] == "SIGQUIT"


def test_the_umask_is_the_workers(spool):
    job = spool.add("-c", "umask; touch made; mkdir -p under; touch under/made")
    worked(spool, *through("umask 027"))
    assert int(printed(spool, job), 8) == 0o027
    assert stat.S_IMODE((spool.path / "made").stat().st_mode) == 0o640
    assert stat.S_IMODE((spool.path / "under").stat().st_mode) == 0o750


# --- directory, program, arguments ------------------------------------------------------------------------


def test_a_job_runs_in_the_submitters_directory_with_its_links_kept(spool):
    (spool.path / "real" / "sub").mkdir(parents=True)
    (spool.path / "link").symlink_to("real")
    here = spool.add("--", "pwd", cwd=spool.path / "real", env={"SPOOLCTL_DB": str(spool.db)})
    named = spool.add("--cwd", "link/sub", "--", "pwd")
    spool.work(check=0)
    assert printed(spool, here).strip() == os.fsencode(spool.path / "real")
    assert printed(spool, named).strip() == os.fsencode(spool.path / "real" / "sub")
    assert spool.show(named)["job"]["cwd"] == str(spool.path / "link" / "sub")


def failures(spool, *jobs):
    """The error texts of jobs that could not be started; all that goes with them is checked."""
    texts = []
    for job_id in jobs:
        attempt = last(spool, job_id)
        assert (attempt["state"], attempt["failure_reason"]) == ("failed", "spawn_failed"), attempt
        assert (attempt["exit_code"], attempt["signal"], attempt["pid"]) == (None, None, None)
        assert spool.show(job_id)["job"]["last_error"] == attempt["error"]
        assert ("failed", attempt["error"]) in story(spool, job_id)
        texts.append(attempt["error"])
    return texts


def test_what_cannot_be_started_is_spawn_failed_and_names_the_path(spool):
    for name in ("gone", "file"):
        (spool.path / name).mkdir()
    once = ("--max-retries", "0")
    gone = spool.add(*once, "--cwd", "gone", "--", "true")
    file = spool.add(*once, "--cwd", "file", "--", "true")
    nothing = spool.add(*once, "--", "no-such-program-here")
    path = spool.add(*once, "--", "./no/such")
    script = spool.path / "no-interpreter"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    bad = spool.add(*once, "--", str(script))
    text = spool.path / "text"
    text.write_text("echo never through a shell\n")
    text.chmod(0o755)
    noexec = spool.add(*once, "--", "./text")
    folder = spool.add(*once, "--", "/")
    after = spool.add("--", "echo", "goes on")
    for name in ("gone", "file"):
        (spool.path / name).rmdir()
    (spool.path / "file").touch()
    done = spool.work(check=0).data
    assert (done["executed"], done["failed"], done["dead"], done["succeeded"]) == (8, 7, 7, 1)
    assert failures(spool, gone, file, nothing, path, bad, noexec, folder) == [
        f"spawn failed: [Errno 2] No such file or directory: '{spool.path}/gone'",
        f"spawn failed: [Errno 20] Not a directory: '{spool.path}/file'",
        "spawn failed: [Errno 2] No such file or directory: 'no-such-program-here'",
        "spawn failed: [Errno 2] No such file or directory: './no/such'",
        f"spawn failed: [Errno 2] No such file or directory: '{script}'",
        "spawn failed: [Errno 8] Exec format error: './text'",
        "spawn failed: [Errno 13] Permission denied: '/'",
    ]
    assert printed(spool, after) == b"goes on\n"


def program(path: Path, says: str, mode: int = 0o755) -> None:
    """A script that appears whole, as an installer would put it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(f"#!/bin/sh\necho {says}\n")
    new.chmod(mode)
    new.rename(path)


def test_a_program_is_looked_up_in_the_jobs_own_path(spool):
    usual = os.environ["PATH"]
    program(spool.path / "a" / "tool", "a")
    program(spool.path / "b" / "tool", "b")
    program(spool.path / "denied" / "tool", "denied", mode=0o644)
    (spool.path / "denied" / "folder").mkdir()
    program(spool.path / "work dir" / "bin" / "tool", "relative")
    program(spool.path / "work dir" / "tool", "here")
    (spool.path / "dirs" / "tool").mkdir(parents=True)

    def add(path, *more, word="tool"):
        return spool.add("--max-retries", "0", "--env", f"PATH={path}", *more, "--", word)

    home = spool.path
    submitted = spool.add("--", "tool", env={"PATH": f"{home}/b:{usual}"})
    first = add(f"{home}/a:{home}/b:{usual}")
    skips = add(f"{home}/none:{home}/denied:{home}/dirs:{home}/b:{usual}")
    relative = add(f"bin:{home}/a:{usual}", "--cwd", "work dir")
    elsewhere = add(f"bin:{home}/a:{usual}")  # no bin here
    empty = add(f":{home}/a:{usual}", "--cwd", "work dir")
    denied = add(f"{home}/none:{home}/denied")
    missing = add(f"{home}/none")
    spool.work(env={"PATH": f"{home}/a:{usual}"}, check=0)
    found = [
        printed(spool, job).decode().strip() for job in (submitted, first, skips, relative, elsewhere, empty)
    ]
    assert found == ["b", "a", "b", "relative", "a", "here"]
    assert failures(spool, denied, missing) == [
        "spawn failed: [Errno 13] Permission denied: 'tool'",
        "spawn failed: [Errno 2] No such file or directory: 'tool'",
    ]


def test_a_worker_follows_programs_that_come_and_go_between_two_jobs(spool):
    home, usual = spool.path, os.environ["PATH"]
    program(home / "b" / "tool", "old")
    path = ("--env", f"PATH={home}/a:{home}/b:{home}/c:{usual}", "--max-retries", "0")
    worker = spool.start("work", "--json", "--poll-interval", "0.05")

    def run_one():
        job = spool.add(*path, "--", "tool")
        spool.wait_for(job, "done", "dead")
        return job

    assert printed(spool, run_one()) == b"old\n"
    program(home / "c" / "tool", "later in the path")
    (home / "b" / "tool").unlink()
    assert printed(spool, run_one()) == b"later in the path\n"
    program(home / "a" / "tool", "first in the path")
    assert printed(spool, run_one()) == b"first in the path\n"
    (home / "a" / "tool").chmod(0o644)
    assert printed(spool, run_one()) == b"later in the path\n"
    for name in "ac":
        (home / name / "tool").unlink()
    assert failures(spool, run_one()) == ["spawn failed: [Errno 2] No such file or directory: 'tool'"]
    assert worker.poll() is None


def test_arguments_are_kept_byte_for_byte(spool):
    words = ["a b", "", "*", "$HOME", "it's", "n\nl", "a\udcffb", "é", "\x1b[31m", "--json", "-"]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    line = ("add", "--json", "--note", "é", "--", "printf", "%s|", *words)
    job = spool.cli(*line, check=0).data["job_id"]
    other = spool.cli(*line, env=ascii_only, check=0)
    assert worked(spool, env=ascii_only).exit == 0
    expected = b"".join(os.fsencode(word) + b"|" for word in words)
    assert printed(spool, job) == printed(spool, other.data["job_id"]) == expected
    shown = spool.show(job)["job"]
    assert shown["argv"][8] == "a\ufffdb"
    assert shown["note"] == spool.show(2)["job"]["note"] == "é"
    for verb in ("list", "status", "events", "feedback", "output"):
        ids = ("1",) if verb in ("feedback", "output") else ()
        spool.run(verb, "--json", *ids, check=0)
        people = spool.run(verb, *ids, check=0)
        assert verb in ("feedback", "output") or "\x1b" not in people.text
    job = spool.json("list")["jobs"][0]
    assert job["argv"][9:11] == ["é", "\x1b[31m"]


def test_an_argument_list_that_the_system_refuses_is_spawn_failed(spool):
    lines = [{"argv": ["true", "x" * 200_000]}, {"argv": ["true", *["y" * 100_000] * 40]}, {"argv": ["true"]}]
    feed = "\n".join(json.dumps(line | {"max_retries": 0}) for line in lines).encode()
    jobs = spool.json("add", "--from", "-", stdin=feed)["job_ids"]
    spool.work(check=0)
    assert (
        failures(spool, *jobs[:2])
        == [f"spawn failed: [Errno 7] Argument list too long: '{shutil.which('true')}'"] * 2
    )
    assert spool.state(jobs[2]) == "done"
    assert len(spool.show(jobs[0])["job"]["argv"][1]) == 200_000


def test_a_damaged_row_stops_neither_the_worker_nor_the_others(spool):
    columns = ("argv", "env", "captured_env", "cwd", "timeout", "backoff_base", "max_output")
    jobs = [spool.add("--max-retries", "1", "-c", "echo ran; exit 1") for _ in columns]
    after = spool.add("--", "true")
    for job, column in zip(jobs, columns, strict=True):
        change(spool, f"UPDATE jobs SET {column} = :damage WHERE id = {job}", {"damage": "[1, {\x00"})
    for job in jobs:
        change(spool, f"UPDATE jobs SET max_retries = 0 WHERE id = {job}")
    spool.work(check=0)
    assert spool.state(after) == "done"
    assert rows(spool, f"SELECT DISTINCT state FROM jobs WHERE id < {after}") == [("dead",)]
    assert rows(spool, "SELECT count(*) FROM attempts WHERE state = 'running'") == [(0,)]


def test_a_row_that_cannot_be_claimed_is_set_aside(spool):
    taken, last, after = spool.add(), spool.add(), spool.add()
    change(spool, f"UPDATE jobs SET attempt_no = 9223372036854775807 WHERE id = {last}")
    change(
        spool,
        "INSERT INTO attempts (job_id, attempt_no, state, worker, worker_label, token, started_at,"
        f" finished_at) VALUES ({taken}, 1, 'failed', 1, 'w', 't', 1, 1)",
    )
    assert spool.work(check=0).data["drained"] is True
    assert spool.state(after) == "done"
    for job in (taken, last):
        shown = spool.show(job)
        assert (shown["job"]["state"], shown["job"]["last_failure_reason"]) == ("dead", "unknown")
        assert shown["job"]["last_error"].startswith("the stored row cannot be run: ")
        assert [one["event"] for one in shown["events"]] == ["added", "failed", "dead"]


# --- output -----------------------------------------------------------------------------------------------


def test_output_is_appended_by_whoever_opens_it(spool):
    ours = spool.add("-c", "echo one; echo two >>/dev/stdout; echo three")
    both = spool.add("-c", "echo err | tee -a /dev/stderr; echo out; echo last >&2")
    spool.work(check=0)
    assert printed(spool, ours) == b"one\ntwo\nthree\n"
    assert printed(spool, both) == b"err\nout\n"
    assert printed(spool, both, stream="stderr") == b"err\nlast\n"


@pytest.mark.parametrize("umask", ["022", "000"])
def test_every_file_is_private_from_its_first_moment(spool, umask):
    look = r"find .spoolctl \( -type d ! -perm 700 -o ! -type d ! -perm 600 \) -print"
    line = ["add", "--json", "--", "sh", "-c", look]
    done = subprocess.run(
        [*through(f"umask {umask}"), *command(*line)], cwd=spool.path, env=clean_env(), capture_output=True
    )
    job = checked(Answer(line, done.returncode, done.stdout, done.stderr), {}).data["job_id"]
    worked(spool, *through(f"umask {umask}"))
    assert printed(spool, job) == b""
    assert spool.state(job) == "done"
    for path in [spool.db.parent, *spool.db.parent.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_the_folder_may_be_moved_as_a_whole(spool):
    job = spool.add("-c", "echo text $SPOOLCTL_JOB_DB")
    spool.work(check=0)
    moved = spool.path / "else" / "where"
    moved.parent.mkdir()
    shutil.move(spool.db.parent, moved)
    at = ("--db", str(moved / "queue.db"))
    assert spool.json("output", str(job), *at)["streams"]["stdout"]["preview"] == f"text {spool.db}\n"
    again = spool.add(*at, "-c", "echo $SPOOLCTL_JOB_DB")
    spool.work(*at, check=0)
    shown = spool.json("output", str(again), *at)["streams"]["stdout"]
    assert shown["preview"].strip() == str(moved / "queue.db")
    assert shown["path"] == str(moved / "output" / str(again) / "1" / "stdout")


def test_files_found_under_a_new_attempts_number_are_emptied_and_links_are_not_followed(spool):
    stale, linked = spool.add("-c", "echo new"), spool.add("--max-retries", "0", "-c", "echo new")
    victim = spool.path / "victim"
    victim.write_text("precious")
    for job in (stale, linked):
        folder = spool.output / str(job) / "1"
        folder.mkdir(parents=True)
        (folder / "stderr").write_text("of an attempt that a power cut took back")
    (spool.output / str(stale) / "1" / "stdout").write_text("a long text of another time\n")
    (spool.output / str(linked) / "1" / "stdout").symlink_to(victim)
    spool.work(check=0)
    assert (printed(spool, stale), printed(spool, stale, stream="stderr")) == (b"new\n", b"")
    assert victim.read_text() == "precious"
    (text,) = failures(spool, linked)
    assert f"{spool.output}/{linked}/1/stdout" in text


def test_an_output_directory_that_cannot_be_made_fails_that_attempt_only(spool):
    job = spool.add("--max-retries", "1", "--backoff-base", "0.3", "-c", "echo ran")
    spool.output.touch()
    other = spool.add("--max-retries", "0", "--", "true")
    worker = spool.start("work", "--json", "--drain")
    spool.wait_for(other, "dead")
    assert str(spool.output) in failures(spool, other)[0]
    wait_until(lambda: len(spool.show(job)["attempts"]) == 1)
    spool.output.unlink()
    assert worker.wait(20) == 0
    assert told(spool, job) == ["added", "claimed", "failed", "claimed", "succeeded"]
    assert printed(spool, job, 2) == b"ran\n"


@linux
def test_output_past_its_limit_ends_the_tree(spool):
    many = "while :; do echo 0123456789012345678901234567890123456789; sleep 0.001; done"
    job = spool.add("--max-output", "2k", "--max-retries", "0", "-c", f"({many}) & ({many}) >&2 & wait")
    below = spool.add(
        "--max-output", "2k", "-c", "head -c 1024 /dev/zero; head -c 1024 /dev/zero >&2; sleep 0.3"
    )
    spool.work("-j", "2", check=0)
    attempt = last(spool, job)
    assert (attempt["state"], attempt["failure_reason"]) == ("failed", "output_limit")
    assert attempt["error"] == "output limit of 2048 bytes"
    assert story(spool, job)[-2:] == [("failed", "output limit of 2048 bytes"), ("dead", None)]
    assert len(printed(spool, job)) + len(printed(spool, job, stream="stderr")) > 2048
    assert spool.state(below) == "done"


# --- the tree ---------------------------------------------------------------------------------------------


@linux
def test_what_a_command_leaves_behind_is_ended_and_the_event_says_so(spool):
    left = {
        "child": "sleep 313 & exit 0",
        "two": "sleep 313 & sleep 313 & exit 0",
        "session": "setsid sleep 313 & exit 0",
        "own group": "timeout 60 sh -c ': >up; exec sleep 300' & until [ -e up ]; do :; done; exit 0",
        "job control": "exec bash -c 'set -m; sleep 300 & exit 0'",
        "no token": "env -i sleep 300 >/dev/null 2>&1 & exit 0",
        "no token, no session": "env -i setsid sleep 300 >/dev/null 2>&1 & exit 0",
        "twice away": "setsid sh -c 'env -i setsid sleep 300 >/dev/null 2>&1 & exit 0' & wait; exit 0",
        "stopped": "sleep 300 & kill -STOP $!; exit 0",
        "deaf": "(trap '' TERM; exec sleep 300) & exit 0",
    }
    jobs = {name: spool.add("-c", script) for name, script in left.items()}
    failed = spool.add("--max-retries", "0", "-c", "sleep 313 & exit 3")
    clean = spool.add("-c", "sleep 0.01 & wait")
    spool.work("--grace", "0.3", check=0)
    details = {name: story(spool, job)[-1] for name, job in jobs.items()}
    more = {"two": 2, "own group": 2}
    assert details == {name: ("succeeded", f"ended {more.get(name, 1)} left processes") for name in left}
    assert story(spool, failed)[-2:] == [("failed", "exit 3; ended 1 left processes"), ("dead", None)]
    assert last(spool, failed)["error"] == "exit 3"
    assert story(spool, clean)[-1] == ("succeeded", None)
    # `spool` fails this test when any of them still runs.


@linux
def test_kept_children_live_through_the_end_and_through_later_jobs(spool):
    spool.leaves_processes()
    later = "sleep 0.6; env sleep 315 >/dev/null 2>&1 & echo $! >late; exit 0"
    scripts = {
        "plain": "sleep 313 & echo $! >plain; exit 0",
        "away": "setsid sleep 314 >/dev/null 2>&1 & echo $! >away; exit 0",
        "late": f'setsid sh -c "{later.replace("$", chr(92) + "$")}" & exit 0',
    }
    jobs = [spool.add("--keep-children", "-c", script) for script in scripts.values()]
    others = [spool.add("-c", "sleep 0.4; (sleep 316 &) ; exit 0") for _ in range(3)]
    spool.work("-j", "2", check=0)
    assert {spool.state(job) for job in jobs + others} == {"done"}
    assert [story(spool, job)[-1] for job in jobs] == [("succeeded", None)] * 3
    assert {name: alive(pid_in(spool.path / name)) for name in scripts} == dict.fromkeys(scripts, True)
    assert [story(spool, job)[-1] for job in others] == [("succeeded", "ended 1 left processes")] * 3


@linux
def test_keep_children_holds_at_the_normal_end_only(spool):
    late = spool.add("--keep-children", "--timeout", "0.3", "--max-retries", "0", "-c", "sleep 313 & wait")
    loud = spool.add(
        "--keep-children", "--max-output", "1", "--max-retries", "0", "-c", "echo ab; sleep 313 & wait"
    )
    spool.work("-j", "2", "--grace", "0.5", check=0)
    assert last(spool, late)["state"] == "timed_out"
    assert last(spool, loud)["failure_reason"] == "output_limit"


@linux
def test_a_timeout_ends_the_whole_tree(spool):
    once = ("--max-retries", "0", "--timeout")
    deaf = spool.add(*once, "1", "-c", "sh -c \"trap '' TERM; exec sleep 312\" & wait")
    away = spool.add(*once, "0.5", "-c", "setsid sleep 314 & wait")
    no_token = spool.add(*once, "0.5", "-c", "env -i setsid sleep 314 >/dev/null 2>&1 & wait")
    stopped = spool.add(*once, "0.5", "-c", "kill -STOP $$; sleep 314")
    whole = spool.add(*once, "0.5", "--", sys.executable, "-c", "import time; time.sleep(300)")
    obeys = spool.add(*once, "0.5", "-c", "trap 'echo bye; exit 0' TERM; sleep 314 & wait")
    began = time.monotonic()
    spool.work("-j", "6", "--grace", "0.5", check=0)
    assert time.monotonic() - began < 20
    for job in (deaf, away, no_token, stopped, whole, obeys):
        seconds = "1" if job == deaf else "0.5"
        attempt = last(spool, job)
        assert (attempt["state"], attempt["failure_reason"]) == ("timed_out", "timeout")
        assert attempt["error"] == f"timed out after {seconds}s"
        assert story(spool, job)[-2:] == [("timed_out", f"timed out after {seconds}s"), ("dead", None)]
        assert attempt["finished_at"] - attempt["started_at"] >= float(seconds)
    assert (last(spool, obeys)["exit_code"], printed(spool, obeys)) == (0, b"bye\n")
    assert "--timeout" in spool.run("feedback", str(deaf), check=0).text


# --- what an end means ------------------------------------------------------------------------------------


def test_the_end_of_a_command_is_told_by_code_signal_reason_and_text(spool):
    scripts = {
        "exit 0": (0, None, None, None),
        "exit 1": (1, None, "exit 1", "process_exit"),
        "exit 255": (255, None, "exit 255", "process_exit"),
        "kill -9 $$": (-9, "SIGKILL", "signal SIGKILL", "process_exit"),
        "kill -TERM $$": (-15, "SIGTERM", "signal SIGTERM", "process_exit"),
        "kill -ABRT $$": (-6, "SIGABRT", "signal SIGABRT", "process_exit"),
        "kill -USR1 $$": (-10, "SIGUSR1", "signal SIGUSR1", "process_exit"),
    }
    jobs = {script: spool.add("--max-retries", "0", "-c", script) for script in scripts}
    spool.work("-j", "7", check=0)
    for script, (code, name, error, reason) in scripts.items():
        attempt, job = last(spool, jobs[script]), spool.show(jobs[script])["job"]
        assert (attempt["exit_code"], attempt["signal"], attempt["error"], attempt["failure_reason"]) == (
            code, name, error, reason,
        ), script  # fmt: skip
        assert (job["last_exit_code"], job["last_signal"], job["last_error"]) == (code, name, error)
        assert job["last_failure_reason"] == reason
        assert (job["state"], attempt["state"]) == (("dead", "failed") if code else ("done", "succeeded"))
        assert job["attempts"] == (1 if code else 0)
        assert job["crashes"] == 0
        ends = [("failed", error), ("dead", None)] if code else [("succeeded", None)]
        assert story(spool, jobs[script]) == [("added", None), ("claimed", None), *ends]
    assert "OOM killer" in spool.run("feedback", str(jobs["kill -9 $$"]), check=0).text


def test_retries_count_attempts_and_end_in_done_or_dead(spool):
    once = spool.add("--backoff-base", "0.05", "-c", "test -e tried || { touch tried; exit 7; }")
    never = spool.add("--max-retries", "2", "--backoff-base", "0.05", "--backoff-max", "0.06", "-c", "exit 7")
    done = spool.work("--worker-id", "me", check=0).data
    assert done == {"drained": True, "executed": 5, "succeeded": 1, "failed": 4, "dead": 1, "unsettled": []}
    first, second = spool.show(once), spool.show(never)
    assert [a["attempt_no"] for a in second["attempts"]] == [1, 2, 3]
    assert {a["worker_id"] for a in second["attempts"]} == {"me"}
    assert (first["job"]["state"], first["job"]["attempts"]) == ("done", 1)
    assert (first["job"]["last_failure_reason"], first["job"]["last_error"]) == (None, None)
    assert (second["job"]["state"], second["job"]["attempts"], second["job"]["crashes"]) == ("dead", 3, 0)
    assert second["job"]["finished_at"] == second["attempts"][-1]["finished_at"]
    assert told(spool, never) == ["added", *["claimed", "failed"] * 3, "dead"]
    assert {e["worker_id"] for e in second["events"][1:]} == {"me"}
    starts = [(a["started_at"], a["finished_at"]) for a in second["attempts"]]
    assert starts[1][0] - starts[0][1] >= 0.05 - 0.0011
    assert starts[2][0] - starts[1][1] >= 0.06 - 0.0011
    spool.run("retry", str(never), check=0)
    spool.work("--once", check=0)
    again = spool.show(never)
    assert again["attempts"][-1]["attempt_no"] == 4
    assert (again["job"]["state"], again["job"]["attempts"]) == ("queued", 1)


def test_backoff_follows_the_stored_policy_and_its_time_is_absolute(spool):
    policy = ("--backoff-base", "100", "--backoff-factor", "3", "--backoff-max", "250")
    plain = spool.add(*policy, "--", "false")
    drawn = [spool.add(*policy, "--backoff-jitter", "0.5", "--", "false") for _ in range(8)]
    for n, wait in ((1, 100), (2, 250), (3, 250)):
        spool.work("--idle-timeout", "0", check=0)
        for job in (plain, *drawn):
            shown = spool.show(job)
            waits = shown["job"]["next_run_at"] - shown["attempts"][-1]["finished_at"]
            least = wait if job == plain else wait / 2
            assert least - 0.0011 <= waits <= wait + 0.0011
            assert (shown["job"]["state"], shown["job"]["attempts"]) == ("queued", n)
            assert shown["job"]["last_failure_reason"] == "process_exit"
            spool.run("retry", str(job), "--now", check=0)
    times = {spool.show(job)["attempts"][-1]["finished_at"] for job in drawn}
    assert times


FINITE = {"allow_nan": False, "allow_infinity": False}


def formula(n, base, factor):
    """base * factor ** (n - 1): exact for a small n, to fifty digits for one of any size."""
    if n <= 100 or not base:
        return Fraction(base) * Fraction(factor) ** (n - 1 if base else 0)
    with localcontext(Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])):
        wide = Decimal(base) * Decimal(factor) ** (n - 1)
    return Fraction(wide) if wide < 10**400 else Fraction(10**400)


@given(
    n=st.one_of(st.integers(1, 300), st.integers(1, 2**63)),
    base=st.one_of(st.floats(0, 31_536_000_000.0, **FINITE), st.integers(0, 31_536_000_000)),
    factor=st.one_of(st.floats(1, 1000, **FINITE), st.integers(1, 1000)),
    most=st.one_of(st.floats(0, 31_536_000_000.0, **FINITE), st.integers(0, 31_536_000_000)),
    jitter=st.floats(0, 1),
    draw=st.floats(0, 1, exclude_max=True),
)
@settings(max_examples=500, deadline=None)
def test_backoff_is_the_formula_computed_exactly(n, base, factor, most, jitter, draw):
    got = Fraction(delay(n, base, factor, most, jitter, draw))
    longest = min(Fraction(most), formula(n, base, factor))
    slack = longest / 10**6 + Fraction(1, 10**320)
    assert longest * (1 - Fraction(jitter)) - slack <= got <= longest + slack
    assert 0 <= got <= most


def test_backoff_of_extremes_is_the_cap_at_once():
    assert delay(1_000_000, 1, 10, 60, 0, 0) == 60
    assert delay(1_000_000, 1.0, 10.0, 300.0, 0.0, 0.0) == 300.0
    assert delay(2**63, 5e-324, 1000, 31_536_000_000, 0, 0) == 31_536_000_000
    assert delay(2**63, 1e-300, 1.0000001, 1.0, 0, 0) == 1.0
    assert delay(2**63, 2, 1, 60, 0, 0) == 2
    assert delay(1, 100, 2, 60, 0, 0) == 60
    assert delay(5, 0, 2, 60, 0, 0) == delay(5, 2, 2, 0, 0, 0) == 0
    assert delay(3, 2, 2, 60, 1, 0.5) == 4
    assert delay(1, 2, 2, 60, 0, 0.9) == 2


# --- what is taken, and when ------------------------------------------------------------------------------


def test_jobs_run_by_priority_then_time_then_number(spool):
    low = spool.add("--priority", "-1", "--", "true")
    third = spool.add("--at", "2000000", "--", "true")
    second = spool.add("--at", "2000000", "--priority", "5", "--", "true")
    fourth = spool.add()
    first = spool.add("--priority", "7", "--", "true")
    change(spool, f"UPDATE jobs SET next_run_at = 1000 WHERE id = {fourth}")
    delayed = spool.add("--priority", "9", "--after", "1h", "--", "true")
    other = spool.add("--priority", "9", "--queue", "other", "--", "true")
    spool.work(check=0)
    order = [
        job for (job,) in rows(spool, "SELECT job_id FROM job_events WHERE event = 'claimed' ORDER BY id")
    ]
    assert order == [first, second, fourth, third, low]
    assert (spool.state(delayed), spool.state(other)) == ("queued", "queued")


def test_concurrency_runs_that_many_at_once(spool):
    meet = 'touch "$SPOOLCTL_JOB_ID.here"; until [ $(ls *.here | wc -l) -ge 3 ]; do sleep 0.02; done'
    jobs = [spool.add("--timeout", "20", "--max-retries", "0", "-c", meet) for _ in range(6)]
    assert spool.work("-j", "3", check=0).data["succeeded"] == 6
    assert most_at_once(spool) == 3
    assert {spool.state(job) for job in jobs} == {"done"}


def test_slots_are_one_ceiling_for_all_workers(spool):
    spool.json("add", "--from", "-", stdin=b"sleep 0.03\n" * 24)
    workers = [spool.start("work", "--drain", "--json", "--slots", "2", "-j", str(j)) for j in (1, 1, 4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert most_at_once(spool) <= 2
    assert spool.json("status")["counts"]["done"] == 24


def test_one_worker_stays_below_its_own_ceiling_and_full_slots_are_not_claimed(spool):
    spool.json("add", "--from", "-", stdin=b"until [ -e go ]; do sleep 0.02; done\n" * 6)
    worker = spool.start("work", "--drain", "--json", "--slots", "2", "-j", "4")
    wait_until(lambda: spool.json("status")["counts"]["running"] == 2)
    assert spool.work("--once", "--slots", "2", check=0).data == {"claimed": False}
    assert spool.work("--idle-timeout", "0", "--slots", "1", check=0).data == {"stopped": True, "executed": 0}
    (spool.path / "go").touch()
    assert worker.wait(30) == 0
    assert most_at_once(spool) == 2
    # Other lanes have slots of their own.
    spool.add("--queue", "other", "--", "true")
    assert spool.work("--once", "--queue", "other", "--slots", "1", check=0).data["claimed"]


def test_once_runs_one_job_and_says_how_it_went(spool):
    jobs = [
        spool.add("--max-retries", "1", "-c", script) for script in ("true", "exit 1", "sleep 60", "exit 2")
    ]
    change(spool, f"UPDATE jobs SET timeout = 0.2 WHERE id = {jobs[2]}")
    change(spool, f"UPDATE jobs SET max_retries = 0 WHERE id = {jobs[3]}")
    answers = [spool.work("--once", check=0).data for _ in jobs]
    assert [(a["job_id"], a["attempt_no"], a["result"], a["job_state"]) for a in answers] == [
        (jobs[0], 1, "succeeded", "done"),
        (jobs[1], 1, "failed", "queued"),
        (jobs[2], 1, "timed_out", "queued"),
        (jobs[3], 1, "failed", "dead"),
    ]
    assert all(answer["claimed"] for answer in answers)
    assert spool.cli("work", "--once", check=0).text == "nothing to run\n"


def test_once_and_drain_on_nothing_write_nothing(spool):
    assert spool.work("--once", check=0).data == {"claimed": False}
    drained = {"drained": True, "executed": 0, "succeeded": 0, "failed": 0, "dead": 0, "unsettled": []}
    assert spool.work(check=0).data == drained
    assert spool.files() == []
    spool.add("--queue", "other", "--", "true")
    spool.add("--after", "1h", "--", "true")
    bytes_before = spool.db.read_bytes()
    files, mtime = spool.files(), spool.db.stat().st_mtime_ns
    assert spool.work("--once", check=0).data == {"claimed": False}
    assert spool.work(check=0).data == drained
    assert (spool.db.read_bytes(), spool.files()) == (bytes_before, files)
    assert spool.db.stat().st_mtime_ns == mtime
    assert rows(spool, "SELECT count(*) FROM workers") == [(0,)]


def test_a_worker_leaves_after_so_many_attempts(spool):
    jobs = [spool.add("--max-retries", "0", "-c", "exit 1")] + [spool.add() for _ in range(4)]
    assert spool.work("--max-jobs", "2", check=0).data == {"stopped": True, "executed": 2}
    assert spool.work("--max-jobs", "2", "-j", "5", "--drain", check=0).data == {
        "drained": False, "executed": 2, "succeeded": 2, "failed": 0, "dead": 0, "unsettled": [],
    }  # fmt: skip
    assert [spool.state(job) for job in jobs] == ["dead", "done", "done", "done", "queued"]
    assert spool.work("--max-jobs", "3", "--drain", check=0).data["drained"] is True


def test_idle_time_counts_from_the_last_thing_to_do(spool):
    spool.add("-c", "sleep 0.6")
    began = time.monotonic()
    assert spool.work("--idle-timeout", "0.3", check=0).data == {"stopped": True, "executed": 1}
    assert time.monotonic() - began >= 0.9
    spool.add("--backoff-base", "1h", "--", "false")
    assert spool.work("--idle-timeout", "0", check=0).data == {"stopped": True, "executed": 1}
    assert spool.work("--idle-timeout", "0", "--drain", check=0).data["drained"] is False
    assert rows(spool, "SELECT count(*) FROM workers") == [(0,)]


def test_strict_tells_of_jobs_that_died(spool):
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--strict", "--queue", "other").exit == 0
    answer = spool.work("--strict")
    assert (answer.exit, answer.data["dead"]) == (6, 1)
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--once", "--strict").exit == 6
    spool.add("--max-retries", "1", "--backoff-base", "1h", "--", "false")
    assert spool.work("--once", "--strict").exit == 0
    spool.add("--max-retries", "0", "--", "false")
    assert spool.work("--idle-timeout", "0").exit == 0


def test_drain_waits_for_backoff_and_for_others_but_not_for_what_is_delayed(spool):
    delayed = spool.add("--after", "1h", "--", "true")
    backing = spool.add("--backoff-base", "0.4", "-c", "test -e tried || { touch tried; exit 7; }")
    done = spool.work(check=0).data
    assert done == {"drained": True, "executed": 2, "succeeded": 1, "failed": 1, "dead": 0, "unsettled": []}
    assert (spool.state(delayed), spool.state(backing)) == ("queued", "done")

    running = spool.add("-c", "until [ -e go ]; do sleep 0.02; done")
    other = spool.start("work", "--json")
    spool.wait_for(running, "running")
    drain = spool.start("work", "--drain", "--json", "--poll-interval", "0.1")
    elsewhere = spool.work("--queue", "elsewhere", check=0).data
    assert elsewhere["drained"]
    assert drain.poll() is None
    (spool.path / "go").touch()
    assert drain.wait(20) == 0
    assert spool.state(running) == "done"
    assert other.poll() is None


@linux
def test_drain_names_what_it_cannot_wait_for(spool):
    jobs = [spool.add("-c", "until [ -e go ]; do sleep 0.02; done") for _ in range(2)]
    worker = spool.start("work", "--json", "-j", "2")
    for job in jobs:
        spool.wait_for(job, "running")
    change(spool, "UPDATE attempts SET ending_since = 1, ending_pids = '1', ending_why = 'uninterruptible' "
           f"WHERE job_id = {jobs[0]}")  # fmt: skip
    drain = spool.start("work", "--drain", "--json")
    wait_until(lambda: len(spool.json("status")["running_jobs"]) == 2)
    assert drain.poll() is None  # the other one has a live owner
    change(spool, "UPDATE workers SET boot_id = NULL")
    out, _ = drain.communicate(timeout=20)
    data = json.loads(out)["data"]
    assert (data["drained"], data["executed"], data["unsettled"]) == (True, 0, jobs)
    (spool.path / "go").touch()
    spool.wait_for(jobs[1], "done")
    assert worker.poll() is None


def test_progress_is_told_on_stderr_a_line_an_attempt(spool):
    spool.add("--max-retries", "0", "-c", "exit 4")
    spool.add()
    answer = spool.cli("work", "--drain", check=0)
    lines = answer.err.splitlines()
    assert lines[0].startswith("spoolctl: job 1 attempt 1 failed (exit 4) in ")
    assert lines[0].endswith(": dead")
    assert lines[1].startswith("spoolctl: job 2 attempt 1 succeeded in ")
    assert len(lines) == 2
    assert answer.text == "drained: 2 attempts: 1 succeeded, 1 failed, 1 jobs dead\n"


def test_a_worker_that_waits_makes_the_database_and_takes_what_comes(spool):
    worker = spool.start(
        "work", "--json", "--poll-interval", "0.05", "--max-jobs", "2", "--worker-id", "first"
    )
    wait_until(spool.db.exists)
    wait_until(lambda: [w["worker_id"] for w in spool.json("status")["workers"]] == ["first"])
    now = spool.add()
    soon = spool.add("--after", "0.5", "--", "true")
    assert worker.wait(20) == 0
    assert (spool.state(now), spool.state(soon)) == ("done", "done")
    assert last(spool, soon)["started_at"] >= spool.show(soon)["job"]["created_at"] + 0.49
    assert json.loads(worker.stdout.read())["data"] == {"stopped": True, "executed": 2}
    assert spool.json("status")["workers"] == []
    assert list((spool.db.parent / "workers").iterdir()) == []
