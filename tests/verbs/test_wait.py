"""wait: what is waited for, how it ends, and that a waiter holds nothing while it sleeps."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import sqlite3
import time

import pytest
from looking import started
from support import finish, wait_until

from spoolctl import clock
from spoolctl.store import awaited as store
from spoolctl.verbs import wait as verb
from spoolctl.watch import Watch

FAST = ("--poll-interval", "0.02")


def wait(spool, *tokens, **options):
    return spool.run("wait", "--json", *FAST, *tokens, **options)


def waiter(spool, *tokens, interval="0.02"):
    """A waiter as a process, likely past its first look."""
    process = spool.start("wait", "--poll-interval", interval, *tokens)
    if os.path.exists("/proc/self/fd"):
        wait_until(lambda: process.poll() is not None or f"{spool.db}-shm" in opened(process.pid))
    else:
        time.sleep(1)
    time.sleep(0.2)
    assert process.poll() is None, process.communicate()
    return process


def opened(pid):
    folder = f"/proc/{pid}/fd"
    try:
        return {os.path.realpath(f"{folder}/{fd}") for fd in os.listdir(folder)}
    except OSError:
        return set()


def batch(spool, count, *flags):
    return spool.json("add", "--from", "-", *flags, stdin=b"true\n" * count)


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something at the waiter's n-th sleep: `meanwhile(1, function)`. Sleeps are short."""
    planned, slept = {}, [0]

    def rest(watch, seconds, out=-1):
        slept[0] += 1
        planned.pop(slept[0], lambda: None)()
        assert slept[0] < 3000, "it waits for ever"
        clock.sleep(min(seconds, 0.001))
        return True

    monkeypatch.setattr(Watch, "rest", rest)
    return planned.__setitem__


# --- how it ends ------------------------------------------------------------------------------------------


def test_it_ends_with_the_last_job_and_tells_each_ones_end(spool):
    spool.add("--", "true")
    spool.add("--max-retries", "0", "-c", "exit 3")
    spool.add("--max-retries", "0", "-c", "kill -TERM $$")
    spool.add("--", "true")
    process = waiter(spool, "--json", "1-3", "4", "2")
    assert spool.json("cancel", "4")["state"] == "canceled"
    assert process.poll() is None
    spool.work(check=0)
    answer = finish(process, check=6)
    assert answer.data == {
        "all_succeeded": False,
        "counts": {"canceled": 1, "dead": 2, "done": 1},
        "jobs": {
            "1": {"state": "done", "attempts": 0, "last_exit_code": 0, "last_error": None},
            "2": {"state": "dead", "attempts": 1, "last_exit_code": 3, "last_error": "exit 3"},
            "3": {"state": "dead", "attempts": 1, "last_exit_code": -15, "last_error": "signal SIGTERM"},
            "4": {"state": "canceled", "attempts": 0, "last_exit_code": None, "last_error": None},
        },
    }
    assert list(answer.data["jobs"]) == ["1", "2", "3", "4"]
    assert answer.warnings == []
    again = wait(spool, "1", check=0)
    assert again.data["all_succeeded"] is True and again.commands == ["spoolctl output 1"]


def test_a_timeout_tells_what_is_settled_and_how_to_wait_on(spool):
    batch(spool, 9)
    spool.json("cancel", "2")
    spool.json("cancel", "6")
    answer = wait(spool, "1-9", "--timeout", "0.1", "--db", str(spool.db), check=4)
    error = answer.error
    assert error["code"] == "TIMEOUT"
    assert error["detail"] == {
        "settled": {
            name: {"state": "canceled", "attempts": 0, "last_exit_code": None, "last_error": None}
            for name in ("2", "6")
        },
        "pending": [1, 3, 4, 5, 7, 8, 9],
    }
    again = "--timeout 0.1 --poll-interval 0.02"
    assert error["remediation"] == f"spoolctl wait --db {spool.db} 1 3-5 7-9 {again}  # settled: 2 6"
    assert answer.warnings == ["NO_WORKER"]
    assert answer.json["warnings"][0]["message"] == f"spoolctl work --db {spool.db}"
    words = shlex.split(error["remediation"], comments=True)[1:]
    repeated = spool.run(words[0], "--json", *words[1:], check=4)
    assert repeated.error["detail"]["pending"] == [1, 3, 4, 5, 7, 8, 9]


def test_any_and_fail_fast_go_by_what_has_settled(spool, meanwhile):
    batch(spool, 4)
    meanwhile(2, lambda: spool.json("cancel", "3"))
    answer = wait(spool, "1-4", "--fail-fast", check=6)
    assert answer.data["counts"] == {"canceled": 1, "queued": 3}
    assert list(answer.data["jobs"]) == ["1", "2", "3", "4"]
    assert answer.data["jobs"]["1"]["state"] == "queued"
    assert answer.commands == ["spoolctl feedback 3", "spoolctl retry 3"]

    spool.work("--max-jobs", "1", check=0)
    answer = wait(spool, "1", "2", "--any", check=0)
    assert answer.data["all_succeeded"] is True
    assert answer.data["counts"] == {"done": 1, "queued": 1}
    # A success is not what --fail-fast waits for.
    assert wait(spool, "1", "2", "--fail-fast", "--timeout", "0.05", check=4)
    assert wait(spool, "1", "2", "--fail-fast", "--any", check=0)


def test_failures_bring_their_reason_and_the_end_of_their_output(spool):
    spool.add("--max-retries", "0", "-c", "echo 123456789; echo bad >&2; exit 1")
    spool.add("-c", "echo fine")
    spool.add("--queue", "other", "--", "true")
    spool.json("cancel", "3")
    spool.work(check=0)
    jobs = wait(spool, "1-3", "--tail-bytes", "5", check=6).data["jobs"]
    assert jobs["1"]["failure_reason"] == "process_exit"
    streams = jobs["1"]["streams"]
    assert streams["stdout"].pop("path").endswith("output/1/1/stdout")
    assert streams["stdout"] == {"tail": "6789\n", "size_bytes": 10, "truncated": True, "missing": False}
    assert streams["stderr"]["tail"] == "bad\n"
    assert "streams" not in jobs["2"]
    assert jobs["3"]["streams"]["stdout"]["path"] is None and jobs["3"]["failure_reason"] is None
    text = spool.run("wait", "1-3", "--tail-bytes", "5", check=6).text
    assert "1 canceled, 1 dead, 1 done" in text and "--- job 1 stderr ---\nbad\n" in text


# --- what is waited for -----------------------------------------------------------------------------------


def test_the_set_is_fixed_at_the_first_look(spool, meanwhile):
    spool.add("--tag", "run=1", "--", "true")
    spool.add("--tag", "run=1", "--queue", "b", "--", "true")
    spool.add("--tag", "run=2", "--", "true")
    spool.json("cancel", "1")
    meanwhile(1, lambda: spool.add("--tag", "run=1", "--queue", "b", "--", "true"))
    meanwhile(2, lambda: spool.json("cancel", "2"))
    # Tags take every job whatever its state, --queue and --all those that are active.
    assert list(wait(spool, "--tag", "run=1", check=6).data["jobs"]) == ["1", "2"]
    meanwhile(4, lambda: spool.json("cancel", "3"))
    assert list(wait(spool, "--queue", "default", check=6).data["jobs"]) == ["3"]
    meanwhile(6, lambda: spool.json("cancel", "4"))
    assert list(wait(spool, "1", "--all", check=6).data["jobs"]) == ["1", "4"]
    assert list(wait(spool, "--tag", "run", "--queue", "b", check=6).data["jobs"]) == ["2", "4"]


def test_nothing_to_wait_for_is_success_but_an_unknown_name_is_not_found(spool):
    for selector in (("--all",), ("--queue", "q")):
        answer = wait(spool, *selector, check=0)
        assert answer.data == {"all_succeeded": True, "counts": {}, "jobs": {}}
    assert spool.files() == []
    assert wait(spool, "1", check=1).error["detail"] == {"missing": [1]}
    spool.add("--queue", "a", "--key", "k", "--", "true")
    assert wait(spool, "--tag", "no=such", check=1).error["detail"] == {"missing": ["no=such"]}
    answer = wait(spool, "1", "7", "key:x", "8-9", check=1)
    assert answer.code == "NOT_FOUND" and answer.error["detail"] == {"missing": [7, "key:x", "8-9"]}
    assert wait(spool, check=1).code == "MISSING_REQUIRED"
    spool.json("cancel", "1")
    spool.add("--queue", "a", "--", "true")
    # Beside a key, --queue says where to look for it and selects nothing.
    assert list(wait(spool, "key:k", "--queue", "a", check=6).data["jobs"]) == ["1"]
    assert wait(spool, "key:k", "--queue", "b", check=1).error["detail"] == {"missing": ["key:k"]}


def test_a_pruned_job_has_no_state_and_did_not_succeed(spool, meanwhile):
    batch(spool, 2)

    def prune():
        spool.json("cancel", "2")
        spool.json("prune", "--older-than", "0", "--state", "canceled", "--yes")

    meanwhile(1, prune)
    meanwhile(2, lambda: spool.work(check=0))
    answer = wait(spool, "1", "2", check=6)
    assert answer.data["jobs"]["2"] == {"state": None}
    assert answer.data["counts"] == {"done": 1}
    assert answer.data["all_succeeded"] is False
    assert "pruned" in verb.text(answer.data, _view())


def _view():
    from spoolctl.terminal import View

    return View(0.0)


def test_a_big_set_is_followed_by_its_events_and_shows_only_what_is_not_done(spool, meanwhile, monkeypatch):
    monkeypatch.setattr(store, "SMALL", 10)
    batch(spool, 1100)
    read = []
    look = store.Awaited._read
    monkeypatch.setattr(
        store.Awaited, "_read", lambda self, ids, keep=False: read.append(len(ids)) or look(self, ids, keep)
    )

    def prune():  # leaves no event
        spool.json("cancel", "500")
        spool.json("prune", "--older-than", "0", "--state", "canceled", "--yes")

    meanwhile(1, lambda: spool.json("cancel", "700", "3"))
    meanwhile(2, prune)
    meanwhile(200, lambda: spool.work("-j", "4", check=0))
    answer = wait(spool, "1-1100", check=6)
    assert read[0] == 1100
    assert max(read[1:150]) <= 12, "a look costs what changed, and a slice"
    assert answer.data["counts"] == {"canceled": 2, "done": 1097}
    assert list(answer.data["jobs"]) == ["3", "500", "700"]
    assert answer.data["jobs"]["500"] == {"state": None}


# --- how it waits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_by_that_signal_with_nothing_said(spool, number):
    spool.add()
    process = waiter(spool, "1", "--json")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == -number
    assert out == b"" and b"Traceback" not in err


def test_a_sleeping_waiter_holds_no_read_transaction(spool):
    spool.add()
    process = waiter(spool, "1", "--json", interval="30")
    db = sqlite3.connect(spool.db)
    for i in range(20):
        db.execute("INSERT INTO meta VALUES (?, 'x')", (f"m{i}",))
        db.commit()
    assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "not busy: nobody reads"
    assert os.stat(f"{spool.db}-wal").st_size == 0
    db.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    process.communicate()


def test_a_database_that_goes_away_ends_the_wait(spool, meanwhile):
    spool.add()
    meanwhile(2, spool.db.unlink)
    assert wait(spool, "1", check=3).code == "DB_INVALID"


def test_no_worker_is_said_only_where_nothing_can_settle_it(spool):
    spool.add("--queue", "a", "--after", "1h", "--", "true")
    spool.add("-c", "while [ ! -e go ]; do sleep 0.02; done")
    worker = spool.start("work", "--once")
    started(spool, 2)
    answer = wait(spool, "1", "2", "--timeout", "0.05", check=4)
    assert [w["message"] for w in answer.json["warnings"]] == ["spoolctl work --queue a"]
    assert wait(spool, "2", "--timeout", "0.05", check=4).warnings == []
    # In text it is said before the waiting, for a person who would wait for ever.
    process = waiter(spool, "1")
    assert select.select([process.stderr], [], [], 20)[0]
    assert os.read(process.stderr.fileno(), 1000) == b"spoolctl: warning NO_WORKER: spoolctl work --queue a\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert wait(spool, "2", "--timeout", "0.05", check=4).warnings == ["NO_WORKER"]
    (spool.path / "go").touch()
    spool.work(check=0)


def test_progress_goes_to_a_terminal_only_and_is_wiped(spool):
    batch(spool, 3)
    spool.json("cancel", "1")
    ours, theirs = pty.openpty()
    process = spool.start("wait", "1-3", *FAST, stderr=theirs)
    os.close(theirs)
    seen = b""

    def read_until(mark):
        nonlocal seen
        while mark not in seen:
            assert select.select([ours], [], [], 20)[0], seen
            seen += os.read(ours, 4096)

    read_until(b"\rwaiting: 1 of 3 settled, 1 failed")
    spool.json("cancel", "2", "3")
    read_until(b" \r")
    out, _ = process.communicate(timeout=20)
    os.close(ours)
    assert process.returncode == 6
    assert b"waiting" not in out and out.startswith(b"3 canceled\n")
    assert spool.run("wait", "1-3", check=6).err == ""


@pytest.mark.parametrize(
    ("ids", "words"),
    [([5], "5"), ([1, 2], "1 2"), ([3, 1, 2], "1-3"), ([1, 3, 4, 5, 9], "1 3-5 9"), (range(1, 99, 2), None)],
)
def test_ids_are_spelled_as_the_words_that_wait_takes(ids, words):
    assert verb._spans(list(ids)) == words
