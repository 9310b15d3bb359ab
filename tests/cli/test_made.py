"""SPEC 2.5 and 7: what a call makes, with which modes and names, and what it leaves alone."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from support import Answer, Spool, checked, clean_env, command


def fill(spool, *words, note="", **options):
    """Add a job that can be told from others."""
    spool.json("add", *words, "--note", note, "--", "true", **options)


REFUSED = [
    ["add", "--json"], ["add", "--json", "--priority", "x", "--", "true"],
    ["add", "--json", "--bogus", "--", "true"], ["add", "--json", "--after", "1h", "--at", "0", "--", "true"],
    ["add", "--json", "-c", ""], ["add", "--json", "--env", "NOT_SET_ANYWHERE", "--", "true"],
    ["add", "--json", "--tag", "a=1", "--tag", "a=2", "x"],
    ["add", "--json", "--", ""], ["add", "--json", "--from", "missing"], ["cancel", "--json", "1"],
    ["retry", "--json", "1"], ["show", "--json", "1"], ["prune", "--json", "--older-than", "1h"],
    ["wait", "--json", "1"], ["feedback", "--json", "1"], ["output", "--json", "1"],
]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_refused_call_makes_nothing(spool, words):
    answer = spool.run(*words)
    assert answer.code is not None
    assert spool.files() == []
    assert spool.run(*words, "--db", "deep/er/q.db").code is not None
    assert spool.files() == []


@pytest.mark.parametrize(
    "words",
    [["list"], ["status"], ["events"], ["config-show"], ["prune", "--older-than", "1h", "--dry-run"],
     ["prune", "--older-than", "1h", "--yes"], ["wait", "--all"], ["retry", "--all-dead"],
     ["cancel", "--queue", "x"], ["work", "--once"], ["work", "--drain"]],
    ids=" ".join,
)  # fmt: skip
def test_a_call_that_finds_nothing_makes_nothing(spool, words):
    answer = spool.run(words[0], "--json", *words[1:])
    assert answer.exit == 0, answer
    assert spool.files() == []


def test_the_database_that_was_made_is_named(spool):
    answer = spool.run("add", "--json", "--db", "a/b/q.db", "--", "true")
    assert "DB_CREATED" in answer.warnings
    message = next(w["message"] for w in answer.json["warnings"] if w["code"] == "DB_CREATED")
    assert str(spool.path / "a" / "b" / "q.db") in message
    assert "DB_CREATED" not in spool.run("add", "--json", "--db", "a/b/q.db", "--", "true").warnings
    text = spool.run("add", "--db", "c.db", "--", "true")
    assert "DB_CREATED" in text.warnings


def test_a_new_spool_keeps_itself_out_of_version_control(spool):
    fill(spool)
    assert (spool.path / ".spoolctl" / ".gitignore").read_text() == "*\n"


def test_a_folder_of_another_name_or_one_that_was_there_gets_no_such_file(spool):
    fill(spool, "--db", "jobs/queue.db")
    assert not (spool.path / "jobs" / ".gitignore").exists()
    (spool.path / ".spoolctl").mkdir()
    fill(spool)
    assert not (spool.path / ".spoolctl" / ".gitignore").exists()


def modes(folder):
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077, 0o277])
def test_everything_is_private_under_any_umask(spool, umask):
    """QUALITY, case 28: while a call is under way and afterwards."""
    line = f'umask {umask:04o}; exec "$@"'

    def call(*words):
        done = subprocess.run(
            ["sh", "-c", line, "sh", *command(*words)], cwd=spool.path, env=clean_env(), capture_output=True
        )
        return checked(Answer(list(words), done.returncode, done.stdout, done.stderr), {}).exit

    if umask == 0o277:  # it takes the owner's right to write
        assert call("add", "--json", "--", "true") in (0, 3)
        return
    assert call("add", "--json", "--db", "a/b/queue.db", "-c", "echo hi") == 0
    assert call("add", "--json", "-c", "echo hi") == 0
    assert call("work", "--json", "--drain") == 0
    found = modes(spool.path)
    assert ".spoolctl/queue.db" in found
    assert ".spoolctl/output/1/1/stdout" in found
    for name, mode in found.items():
        wanted = 0o700 if (spool.path / name).is_dir() else 0o600
        assert mode == wanted, (name, oct(mode))


def test_the_write_ahead_log_is_as_private_as_the_database(spool):
    line = 'umask 0000; exec "$@"'
    env = clean_env()
    subprocess.run(
        ["sh", "-c", line, "sh", *command("add", "--", "true")],
        cwd=spool.path, env=env, check=True, capture_output=True,
    )  # fmt: skip
    import sqlite3

    other = sqlite3.connect(spool.db)  # holds -wal and -shm in place
    try:
        other.execute("SELECT count(*) FROM jobs").fetchone()
        subprocess.run(
            ["sh", "-c", line, "sh", *command("add", "--", "true")],
            cwd=spool.path, env=env, check=True, capture_output=True,
        )  # fmt: skip
        found = modes(spool.path)
        assert found[".spoolctl/queue.db-wal"] == found[".spoolctl/queue.db-shm"] == 0o600
    finally:
        other.close()


def test_what_stands_beside_a_file_named_queue(spool):
    spool.add("-c", "echo hi")
    spool.work()
    names = {path.name for path in spool.db.parent.iterdir()}
    assert {"queue.db", "output", "gate"} <= names
    assert names <= {
        ".gitignore", "queue.db", "queue.db-wal", "queue.db-shm", "output", "workers", "gate", "wake",
    }  # fmt: skip


def test_what_stands_beside_a_file_of_another_name(spool):
    spool.run("add", "--json", "--db", "jobs.db", "-c", "echo hi", check=0)
    spool.work("--db", "jobs.db")
    names = {path.name for path in spool.path.iterdir()}
    assert {"jobs.db", "jobs.db.output", "jobs.db.gate"} <= names
    assert names <= {
        "jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.output", "jobs.db.workers", "jobs.db.gate",
        "jobs.db.wake",
    }  # fmt: skip
    path = spool.json("output", "--db", "jobs.db", "1")["streams"]["stdout"]["path"]
    assert path == str(spool.path / "jobs.db.output" / "1" / "1" / "stdout")


def test_two_queues_of_one_folder_do_not_meet(spool):
    for name in ("a.db", "b.db"):
        spool.run("add", "--json", "--db", name, "-c", f"echo {name}", check=0)
    spool.work("--db", "a.db")
    assert spool.json("list", "--db", "b.db")["jobs"][0]["state"] == "queued"
    assert not (spool.path / "b.db.output").exists()


def test_the_folder_can_be_moved_as_a_whole(spool):
    """QUALITY, case 29."""
    job = spool.add("-c", "echo moved")
    spool.work()
    content = spool.db.read_bytes()
    assert os.fsencode(spool.path / ".spoolctl") not in content
    elsewhere = spool.path / "elsewhere"
    elsewhere.mkdir()
    (spool.path / ".spoolctl").rename(elsewhere / ".spoolctl")
    answer = Spool(elsewhere).json("output", str(job))
    assert answer["streams"]["stdout"]["preview"] == "moved\n"
    assert answer["streams"]["stdout"]["path"].startswith(str(elsewhere))
