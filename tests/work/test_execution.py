"""SPEC 4 and 5: how a command is started: its environment, descriptors and signals, its directory, program
and arguments. Several jobs share a worker where they do not disturb each other.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from looking import failures, last, printed, rows
from support import clean_env, command
from workers import scripted, through, worked

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ALL_SIGNALS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""


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


# What a command sees of how it was started; the shell's own numbers and the job's are cut off.
SEEN = """
pwd; ls /proc/self/fd; readlink /proc/$$/fd/0; umask; env | grep -v '^\\(SPOOLCTL_\\|_=\\)' | sort
grep '^Sig[^Q]\\|^Groups' /proc/self/status
set -- $(sed 's/.*)//' /proc/$$/stat); [ "$4" -eq $$ ] && echo leader
"""
BY_SUBPROCESS = """
import sys
from spoolctl.work import spawn
assert spawn._LAST_ARGUMENTS or sys.version_info[:2] > (3, 13)
spawn._LAST_ARGUMENTS.clear()
from spoolctl.__main__ import main
main()
"""


@linux
def test_the_short_way_to_start_a_command_and_subprocess_do_the_same(spool):
    """Pythons whose arguments of `fork_exec` are not known use subprocess for all."""
    jobs = []
    for way in ("-m", "-c"):
        jobs.append(
            [
                spool.add("--cwd", "/", "--env", "E=\xe9", "-c", SEEN),
                spool.add("--max-retries", "0", "--", "no-such-program"),
                spool.add("--max-retries", "0", "--", "/"),
                spool.add("--max-retries", "0", "--cwd", str(spool.path / "nowhere"), "--", "true"),
                spool.add("--env", "PATH=:/nowhere", "--cwd", "/bin", "--", "true"),
                spool.add("--", "printf", "%s|", "a b", "", "$HOME", "n\nl"),
            ]
        )
        if way == "-m":
            spool.work(check=0)
        else:
            done = scripted(spool, BY_SUBPROCESS, "work", "--drain", "--json")
            assert done.wait(60) == 0, done.stderr.read()
    for one, other in zip(*jobs, strict=True):
        assert spool.state(one) == spool.state(other)
        assert [a["error"] for a in spool.show(one)["attempts"]] == [
            a["error"] for a in spool.show(other)["attempts"]
        ]
        if spool.show(one)["attempts"][0]["failure_reason"] != "spawn_failed":
            assert printed(spool, one) == printed(spool, other)
    assert printed(spool, jobs[0][0]).endswith(b"leader\n")


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
