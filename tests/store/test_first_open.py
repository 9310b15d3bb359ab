"""QUALITY, first open: many at once, and killed at any line."""

from __future__ import annotations

import fcntl
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from killing import killed_at_every_line
from support import clean_env, document

RUNNER = """
import fcntl, os, sys
from spoolctl import cli, emit
class Sink:
    def __init__(self): self.kept = b""
    def write(self, data): self.kept += data
    def try_write(self, data): return True
    def isatty(self): return False
import spoolctl.verbs.add, spoolctl.verbs.list, spoolctl.store.open, spoolctl.store.jobs, json, sqlite3
for line in sys.stdin:
    words = line.split()
    barrier = os.open("barrier", os.O_RDWR)
    print("ready", flush=True)
    fcntl.flock(barrier, fcntl.LOCK_SH)
    os.close(barrier)
    out, err = Sink(), Sink()
    context = cli.Context({"PATH": os.environ["PATH"]}, out, err)
    status = cli.run(words, context)
    context.close()
    print(status, out.kept.decode(), end="", flush=True)
"""

CALLS = ["list" if n % 8 == 7 else "add -- true" for n in range(16)]


@pytest.mark.parametrize(
    ("deep", "rounds"),
    [(False, 12), (True, 12), pytest.param(False, 60, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
)
def test_many_open_a_database_that_does_not_exist_yet(tmp_path, deep, rounds):
    """Everybody succeeds, one made it, no job is lost."""

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUNNER], cwd=tmp_path, env=clean_env(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        for _ in CALLS
    ]  # fmt: skip
    (tmp_path / "barrier").touch()
    try:
        for round_ in range(rounds):
            path = f"a{round_}/b/c/queue.db" if deep else f"q{round_}.db"
            with open(tmp_path / "barrier", "r+") as barrier:
                fcntl.flock(barrier, fcntl.LOCK_EX)
                for process, call in zip(processes, CALLS, strict=True):
                    process.stdin.write(f"--db {path} --json {call}\n")
                for process in processes:
                    assert process.stdout.readline() == "ready\n"
            answers = []
            for process, call in zip(processes, CALLS, strict=True):
                status, _, answer = process.stdout.readline().partition(" ")
                assert status == "0", answer
                answers.append(document(answer, *call.split(), status=0))
            added = [answer["data"]["job_id"] for answer in answers if "job_id" in answer["data"]]
            assert sorted(added) == list(range(1, 15))
            made = [a for a in answers if any(w["code"] == "DB_CREATED" for w in a["warnings"])]
            assert len(made) == 1
            conn = sqlite3.connect(tmp_path / path)
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert conn.execute("SELECT n FROM counts").fetchall() == [(14,)]
            conn.close()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_first_add_killed_at_any_line_leaves_a_database_that_works(in_memory):
    """QUALITY, crash at every step: nothing, an empty file or a whole schema; what was answered is there."""
    for n, path, _, answer, read, listed, again, second, final, jobs in killed_at_every_line(in_memory):
        assert read == 0, (n, listed)
        assert again == 0, (n, second)
        assert final == 0, (n, jobs)
        notes = [job["note"] for job in jobs["data"]["jobs"]]
        assert notes in (["second"], ["second", "first"]), n
        if answer:
            assert notes == ["second", "first"], n
        conn = sqlite3.connect(path)
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)], n
        assert conn.execute("PRAGMA auto_vacuum").fetchone() == (2,), n
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",), n
        assert conn.execute("SELECT n FROM counts").fetchall() == [(len(notes),)], n
        conn.close()
        for one in Path(path).parent.iterdir():
            assert one.stat().st_mode & 0o077 == 0, one
