"""SPEC 2.1 with real processes: locales, readers that leave, full devices, closed descriptors, signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
from support import ROOT, Answer, checked, clean_env, cli, command, document, finish, run, wait_until


def test_the_real_command_answers_as_the_one_in_process(spool):
    for words in (
        ["--version"],
        ["--help"],
        ["nope"],
        ["list", "--json"],
        ["list", "--limit", "x", "--json"],
    ):
        inner, outer = spool.run(*words), spool.cli(*words)
        assert inner.exit == outer.exit
        assert inner.err == outer.err
        if inner.json is None:
            assert inner.out == outer.out
        else:
            assert inner.json["data"] == outer.json["data"]
            assert inner.json["errors"] == outer.json["errors"]


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
    {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"},
]


@pytest.mark.parametrize("locale", LOCALES)
def test_answers_do_not_depend_on_the_locale(spool, locale):
    """QUALITY, case 11: the words are bytes, and UTF-8 is what they are read as."""

    def call(*words):
        done = subprocess.run(
            command(*words),
            cwd=spool.path,
            env=clean_env(**locale),
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout, done.stderr

    note = "é \U0001f600".encode()
    status, out, err = call(b"add", b"--json", b"--note", note, b"--", b"echo", b"\xff\xc3\xa9")
    assert (status, err) == (0, b"")
    document(out, "add", status=status)
    status, out, err = call(b"show", b"--json", b"1")
    job = document(out, "show", "1", status=status)["data"]["job"]
    assert job["note"] == "é \U0001f600"
    assert job["argv"] == ["echo", "\ufffdé"]
    status, out, err = call(b"nop\xc3\xa9\xff")
    assert status == 1
    assert err.decode("utf-8").splitlines()[0].startswith("spoolctl: UNKNOWN_COMMAND: ")
    status, out, err = call(b"list")
    assert status == 0
    assert "é" in out.decode("utf-8")


def gone_reader():
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["list", "--json"], ["list"], ["--help", "--json"], ["list", "--help"]],
)
def test_a_reader_that_went_away_ends_the_call_quietly(spool, words):
    spool.add()
    writer = gone_reader()
    process = spool.start(*words, stdout=writer)
    os.close(writer)
    answer = finish_raw(process)
    assert answer == (0, b""), words


def test_head_takes_what_it_wants(spool):
    """QUALITY, case 26."""
    for _ in range(20):
        spool.add("--note", "x" * 10_000, "--", "true")
    for tail in ("head -c1", "true", "head -1 >/dev/null"):
        line = f'set -o pipefail; "$@" | {tail}; echo "${{PIPESTATUS[0]}}" >&2'
        done = subprocess.run(
            ["bash", "-c", line, "bash", *command("list", "--json")],
            cwd=spool.path, env=clean_env(), capture_output=True,
        )  # fmt: skip
        assert done.stderr == b"0\n", tail


def finish_raw(process):
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["list", "--json"], ["list"], ["--help"], ["--version", "--json"]])
def test_a_full_device_under_stdout_is_an_error_on_stderr(spool, words):
    spool.add()
    with open("/dev/full", "wb") as full:
        status, err = finish_raw(spool.start(*words, stdout=full))
    assert status == 3
    assert re.match(rb"spoolctl: INTERNAL: .*No space left on device", err)
    assert b"Traceback" not in err
    with open("/dev/full", "wb") as full:
        assert finish_raw(spool.start(*words, stdout=full, stderr=full))[0] == 3


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_descriptor_never_lets_an_answer_land_in_a_file(spool, closing):
    line = f'exec "$@" {closing}'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *command("add", "--json", "--", "true")],
        cwd=spool.path, env=clean_env(), capture_output=True,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 3)
    for path in spool.db.parent.iterdir():
        if path.is_file() and path.name != "queue.db" and not path.name.startswith("queue.db-"):
            assert b"data_hash" not in path.read_bytes(), path
    assert spool.run("list", "--json").data["count"] == 1


@pytest.mark.parametrize(("number", "words"), [
    (signal.SIGINT, ["add", "--json", "--from", "-"]), (signal.SIGTERM, ["add", "--json", "--from", "-"]),
    (signal.SIGINT, ["add", "--from", "-"]), (signal.SIGHUP, ["add", "--json", "--from", "-"]),
])  # fmt: skip
def test_a_call_that_waits_dies_by_the_signal_and_says_nothing(spool, number, words):
    process = spool.start(*words, stdin=subprocess.PIPE)
    wait_until(lambda: reads_stdin(process.pid), message="the call to read its input")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert out == b""
    assert b"Traceback" not in err
    assert spool.files() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_an_interrupted_wait_dies_by_the_signal(spool, number, json):
    job = spool.add("--after", "1h", "--", "true")
    process = spool.start("wait", *json, str(job))
    wait_until(lambda: sleeps(process.pid, spool), message="the call to wait")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert out == b""
    assert b"Traceback" not in err


def reads_stdin(pid):
    """Whether a process has begun to read: it sleeps in a system call on descriptor 0."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            return file.read().split()[:2] == ["0", "0x0"]
    except OSError:
        return False


def sleeps(pid, spool):
    """Whether a call has opened the database and sleeps."""
    try:
        names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return str(spool.db) in names and state == "S"


def test_the_package_runs_from_any_directory(tmp_path):
    assert cli("--version", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}).text.startswith("spoolctl ")


def test_a_directory_that_is_gone_is_a_refusal_and_no_fault(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
    for words in (("list", "--json"), ("add", "--json", "--", "true")):
        done = subprocess.run(
            ["bash", "-c", f"{line}", "bash", str(gone), *command(*words)],
            env=clean_env(),
            capture_output=True,
        )
        gone.mkdir()
        answer = Answer(list(words), done.returncode, done.stdout, done.stderr)
        assert checked(answer, {}, check=1).code == "INVALID_INPUT"


def test_finish_reads_a_real_answer(spool):
    assert finish(spool.start("list", "--json"), check=0).data["count"] == 0
    assert run("--version").exit == 0
