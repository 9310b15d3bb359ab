"""events: pages of the ledger, the long poll, and followers as real processes."""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import ROOT, checked_line, clean_env, finish, wait_until


def end(reason):
    return {"control": {"type": "end", "reason": reason}}


def page(spool, *flags):
    """(events, pagination) of a call."""
    answer = spool.run("events", "--json", *flags, check=0)
    assert answer.data["count"] == len(answer.data["events"])
    return answer.data["events"], answer.meta["pagination"]


def follow(spool, *flags):
    return spool.start("events", "--follow", "--json", "--poll-interval", "0.02", *flags)


def lines(process, count):
    words = ["events", "--follow", "--json"]
    return [checked_line(process.stdout.readline().decode(), words) for _ in range(count)]


def attached(spool, process):
    """Wait until a process has the database open, and rests after its first look."""
    link = Path(f"/proc/{process.pid}/fd")
    if link.exists():
        wait_until(lambda: str(spool.db) in {_target(fd) for fd in link.iterdir()})
    resting(process)


def resting(process):
    """Wait until a process waits in poll: it has looked, and nothing it wants is there. Where the system
    does not say so, wait long enough.
    """
    place = Path(f"/proc/{process.pid}/wchan")
    deadline = time.monotonic() + (20 if place.exists() else 1.5)
    while process.poll() is None and time.monotonic() < deadline:
        if place.exists() and "poll" in place.read_text():
            return
        time.sleep(0.01)


def _target(fd):
    try:
        return os.readlink(fd)
    except OSError:  # closed since it was listed
        return None


def settled(process, seconds=20):
    """(status, what was left on stdout, stderr)"""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


# --- pages ------------------------------------------------------------------------------------------------


def test_cursors_lead_through_the_whole_ledger_once(spool):
    for _ in range(7):
        spool.add()
    seen, cursor = [], 0
    while True:
        events, pagination = page(spool, "--since-id", str(cursor), "--limit", "3")
        assert pagination["first_id"] == 1
        if not events:
            break
        assert [e["id"] for e in events] == sorted(e["id"] for e in events)
        assert pagination["cursor"] == events[-1]["id"]
        seen += [e["id"] for e in events]
        cursor = pagination["cursor"]
    assert seen == list(range(1, 8))
    assert pagination["cursor"] == cursor == 7
    assert page(spool, "--since-cursor", "5")[0] == page(spool, "--since-id", "5")[0]
    assert len(page(spool, "--limit", "0")[0]) == 7


def test_a_job_narrows_the_ledger_and_its_oldest_event(spool):
    spool.add()
    wanted = spool.add("--key", "nightly", "--", "true")
    spool.add()
    events, pagination = page(spool, "--job", str(wanted))
    assert [(e["job_id"], e["event"], e["worker_id"]) for e in events] == [(wanted, "added", None)]
    assert pagination == {"cursor": 2, "first_id": 2}
    assert page(spool, "--job", "key:nightly") == (events, pagination)
    more = spool.run("events", "--json", "--job", "key:nightly", check=0).commands
    assert more == [f"spoolctl events --since-id 2 --wait --job {wanted}"]


def test_a_job_that_is_not_kept_has_no_events_but_a_wrong_key_is_an_error(spool):
    spool.add()
    assert page(spool, "--job", "99", "--since-id", "5") == ([], {"cursor": 5, "first_id": None})
    answer = spool.run("events", "--json", "--job", "key:nope", check=1)
    assert answer.code == "NOT_FOUND"
    assert answer.error["detail"] == {"missing": ["key:nope"]}


def test_a_missing_database_answers_as_an_empty_one_and_is_not_made(spool):
    assert page(spool) == ([], {"cursor": 0, "first_id": None})
    assert spool.run("events", check=0).text == "no events\n"
    assert spool.files() == []


@pytest.mark.parametrize(
    "flags",
    [
        "--wait --follow",
        "--limit 5 --follow",
        "--max-events 5 --wait",
        "--idle-timeout 5 --wait",
        "--max-events 5",
        "--idle-timeout 0",
        "--wait-timeout 5",
        "--wait-timeout 5 --follow",
        "--since-id 1 --since-cursor 1",
        "--wait --wait-timeout 0",
        "--follow --max-events 0",
        "--limit 10001",
        "--since-id -1",
    ],
)
def test_flags_that_do_not_fit_together_are_refused(spool, flags):
    answer = spool.run("events", "--json", *flags.split(), check=1)
    assert answer.code == "INVALID_INPUT"
    assert spool.files() == []


def test_text_is_a_table_with_controls_escaped(spool):
    spool.add()
    with sqlite3.connect(spool.db) as db:
        db.execute("UPDATE job_events SET detail = 'two\nlines\x1b[31m'")
    text = spool.run("events", check=0).text
    assert text.splitlines()[0].split() == ["ID", "JOB", "WHEN", "EVENT", "WORKER", "DETAIL"]
    assert text.splitlines()[1].endswith("two\\nlines\\x1b[31m")


# --- the long poll ----------------------------------------------------------------------------------------


def test_a_wait_answers_at_once_when_there_is_something(spool):
    spool.add()
    answer = spool.run("events", "--json", "--wait", "--wait-timeout", "60", check=0)
    assert answer.data["count"] == 1
    assert answer.meta["wait"]["reason"] == "records_available"
    assert answer.meta["wait"]["waited_ms"] < 5000


def test_a_wait_that_runs_out_is_an_empty_page_with_status_0(spool):
    spool.add()
    answer = spool.run("events", "--json", "--wait", "--since-id", "1", "--wait-timeout", "0.2", check=0)
    assert answer.data == {"count": 0, "events": []}
    assert answer.meta["wait"]["reason"] == "timeout"
    assert answer.meta["wait"]["waited_ms"] >= 200
    assert answer.meta["pagination"]["cursor"] == 1


def test_a_wait_ends_with_the_event_it_waited_for(spool):
    spool.add()
    job = spool.add()
    flags = ["--wait", "--since-id", "1", "--job", "key:late", "--poll-interval", "0.02"]
    process = spool.start("events", "--json", *flags)
    attached(spool, process)
    spool.add("--key", "other", "--", "true")
    late = spool.add("--key", "late", "--", "true")
    answer = finish(process, check=0)
    assert [e["job_id"] for e in answer.data["events"]] == [late] != [job]
    assert answer.meta["wait"]["reason"] == "records_available"


def test_a_wait_outlives_the_making_of_the_database(spool):
    process = spool.start("events", "--json", "--wait", "--poll-interval", "0.02")
    time.sleep(0.3)
    assert spool.files() == []
    assert process.poll() is None
    job = spool.add()
    assert [e["job_id"] for e in finish(process, check=0).data["events"]] == [job]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_waiting_call_dies_by_the_signal_and_says_nothing(spool, number):
    spool.add()
    process = spool.start("events", "--json", "--wait", "--since-id", "1")
    attached(spool, process)
    process.send_signal(number)
    assert settled(process)[:2] == (-number, b"")


# --- following --------------------------------------------------------------------------------------------


def test_a_follower_starts_at_the_present_end(spool):
    spool.add()
    process = follow(spool, "--max-events", "2")
    attached(spool, process)
    first, second = spool.add(), spool.add()
    frames = lines(process, 3)
    assert [frame.get("job_id") for frame in frames] == [first, second, None]
    assert frames[2] == end("max_events")
    assert settled(process) == (0, b"", b"")


def test_a_follower_with_an_id_starts_behind_it_and_gives_each_event_once(spool):
    spool.run("add", "--from", "-", stdin=b"true\n" * 600, check=0)  # more than a follower takes at once
    answer = spool.run("events", "--follow", "--json", "--since-id", "10", "--idle-timeout", "0", check=0)
    assert [frame.get("id") for frame in answer.frames] == [*range(11, 601), None]
    assert answer.frames[-1] == end("idle_timeout")
    answer = spool.run("events", "--follow", "--json", "--since-id", "10", "--max-events", "300", check=0)
    assert [frame.get("id") for frame in answer.frames] == [*range(11, 311), None]


def test_an_idle_timeout_counts_from_the_last_event(spool):
    spool.add()
    process = follow(spool, "--idle-timeout", "4", "--since-id", "1")
    attached(spool, process)
    began = time.monotonic()
    spool.add()
    lines(process, 1)
    assert lines(process, 1) == [end("idle_timeout")]
    assert time.monotonic() - began > 3.9
    assert settled(process) == (0, b"", b"")


def test_a_follower_waits_for_a_database_and_shows_it_from_its_start(spool):
    process = follow(spool, "--job", "key:k")
    resting(process)
    assert spool.files() == []
    spool.add("--key", "other", "--", "true")
    job = spool.add("--key", "k", "--", "true")
    assert lines(process, 1)[0]["job_id"] == job
    spool.run("cancel", str(job), check=0)
    assert lines(process, 1)[0]["event"] == "canceled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_follower_with_status_0(spool, number):
    spool.add()
    process = follow(spool, "--since-id", "0")
    lines(process, 1)
    process.send_signal(number)
    assert settled(process) == (0, b"", b"")


# Runs a follower in a child that sends itself a signal at the Nth line after its first output, whosever line
# it is; without N it goes to its end, and tells which N are the first time of a line.
SIGNALLED = """
import ctypes, json, os, signal, sys  # ctypes here: its own lines are not ours
from spoolctl import cli, emit

def follow(at, number):
    pipes = [os.pipe(), os.pipe()]
    pid = os.fork()
    if pid == 0:
        seen, first = 0, {}
        def line(frame, event, arg):
            nonlocal seen
            if event == "line":
                seen += 1
                first.setdefault((frame.f_code.co_filename, frame.f_lineno), seen)
                if seen == at:
                    os.kill(os.getpid(), number)
            return line
        class Out(emit.FdSink):
            def write(self, data):
                super().write(data)
                sys.settrace(line)
                frame = sys._getframe(1)
                while frame:
                    frame.f_trace, frame = line, frame.f_back
        for fd, (_, end) in enumerate(pipes, 1):
            os.dup2(end, fd)
        context = cli.Context({"PATH": "/usr/bin:/bin"}, Out(1), emit.FdSink(2))
        status = 3
        try:
            status = cli.run(sys.argv[1:], context)
        finally:
            context.close()
            sys.settrace(None)
            if not at:
                os.write(1, json.dumps(sorted(first.values())).encode())
            os._exit(status)
    told = []
    for reader, end in pipes:
        os.close(end)
        with open(reader, "rb") as file:
            told.append(file.read().decode())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), *told

status, out, err = follow(0, 0)
numbers = json.loads(out.splitlines()[-1])
for n in numbers:
    print(json.dumps([n, *follow(n, (signal.SIGINT, signal.SIGTERM)[n % 2])]), flush=True)
"""


def signalled_at_every_line(spool, words):
    """(line, status, stdout, stderr) of a follower for every line it passes after its first output."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, *words],
        cwd=spool.path,
        env=clean_env(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_signal_at_any_moment_after_its_first_line_ends_a_follower_with_status_0(spool):
    spool.add()
    words = ["events", "--follow", "--json", "--since-id", "0", "--idle-timeout", "0.01"]
    ends = signalled_at_every_line(spool, words)
    assert len(ends) > 50, "it was not signalled at its lines"
    for n, status, out, err in ends:
        assert (status, err) == (0, ""), n
        frames = [checked_line(line, words) for line in out.splitlines()]
        assert frames[0]["id"] == 1 and frames[1:] in ([], [end("idle_timeout")]), n


def test_a_signal_ends_a_follower_that_nobody_reads_with_whole_lines(spool):
    spool.run("add", "--from", "-", stdin=b"true\n" * 3000, check=0)
    process = follow(spool, "--since-id", "0")
    select.select([process.stdout], [], [], 30)
    time.sleep(0.5)  # the pipe is full by now
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None, 10)
    answer = finish(process, check=0)  # whole lines only
    assert answer.err == ""
    ids = [frame["id"] for frame in answer.frames]
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) < 3000


@pytest.mark.parametrize("more", [True, False], ids=["a write fails", "nothing more comes"])
def test_a_reader_that_leaves_ends_a_follower_quietly(spool, more):
    spool.add()
    process = follow(spool, "--since-id", "0")
    lines(process, 1)
    process.stdout.close()
    if more:
        spool.add()
    assert process.wait(20) == 0
    assert process.stderr.read() == b""


def test_head_is_quiet_in_a_shell(spool):
    spool.add()
    line = f"{sys.executable} -m spoolctl events --follow --since-id 0 | head -1"
    done = subprocess.run(
        ["sh", "-c", line], cwd=spool.path, env=clean_env(), capture_output=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1


def test_text_shows_an_event_a_line_as_it_comes(spool):
    process = spool.start("events", "--follow", "--since-id", "0", "--poll-interval", "0.02")
    job = spool.add()
    line = process.stdout.readline().decode()
    assert line.split()[0] == "1" and line.endswith(f"Z  job {job}  added\n")
    process.send_signal(signal.SIGINT)
    assert settled(process) == (0, b"", b"")


def test_a_sleeping_follower_holds_no_read_transaction(spool):
    spool.add()
    process = follow(spool, "--since-id", "0")
    waiter = spool.start("events", "--json", "--wait", "--since-id", "99", "--wait-timeout", "60")
    lines(process, 1)
    for _ in range(20):
        spool.add()
    lines(process, 20)
    db = sqlite3.connect(spool.db)
    try:
        # A reader that pins anything makes this busy; it resets the WAL to nothing otherwise.
        wait_until(lambda: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, 5)
        assert os.path.getsize(f"{spool.db}-wal") == 0
    finally:
        db.close()
    assert process.poll() is waiter.poll() is None


def test_a_database_that_is_taken_away_ends_a_follower_with_an_error_frame(spool):
    spool.add()
    process = follow(spool, "--since-id", "0")
    lines(process, 1)
    for path in spool.db.parent.glob("queue.db*"):
        path.unlink()
    control = lines(process, 1)[0]["control"]
    assert control["type"] == "error" and control["reason"] == "sqlite_error"
    assert "deleted or replaced" in control["message"]
    assert settled(process)[:2] == (control["exit_code"], b"") == (3, b"")


def test_what_is_no_database_is_an_error_frame_too_but_bad_flags_are_an_envelope(spool):
    spool.db.parent.mkdir(mode=0o700)
    spool.db.write_bytes(b"something else entirely, and long enough to be read as a header" * 40)
    answer = spool.run("events", "--follow", "--json", check=3)
    assert answer.frames[0]["control"]["exit_code"] == 3
    assert spool.run("events", "--follow", check=3).code == "DB_INVALID"
    assert spool.run("events", "--follow", "--json", "--limit", "1", check=1).code == "INVALID_INPUT"
