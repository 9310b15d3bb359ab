"""SPEC 7: stored databases of every schema are opened, and older ones brought up step by step."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest
from crashing.adding import NEWER
from killing import killed_at_every_line
from support import ROOT, Spool, run

from spoolctl import paths
from spoolctl.errors import SpoolctlError
from spoolctl.store import db as store_db
from spoolctl.store import ddl
from spoolctl.store import open as store_open

STORED = ROOT / "tests" / "databases" / "v1.db"


def opened(folder):
    return store_open.open_writer(paths.Spool(os.path.realpath(folder) + "/queue.db", "flag"), create=True)


def copied(tmp_path) -> Spool:
    spool = Spool(tmp_path)
    spool.db.parent.mkdir(mode=0o700)
    shutil.copy(STORED, spool.db)
    spool.db.chmod(0o600)
    return spool


def stored_versions():
    return sorted(int(path.stem[1:]) for path in STORED.parent.glob("v*.db"))


def test_there_is_a_stored_database_of_every_schema():
    assert stored_versions() == list(range(1, ddl.VERSION + 1)), "run tests/databases/make.py"


def schema(conn):
    return sorted(conn.execute("SELECT type, name, sql FROM sqlite_master"), key=repr)


def test_the_stored_database_of_the_present_version_has_the_present_schema(tmp_path):
    """Who changes the schema makes a new version; before the first release: run tests/databases/make.py."""
    stored = sqlite3.connect(f"file:{STORED.parent}/v{ddl.VERSION}.db?mode=ro&immutable=1", uri=True)
    fresh = opened(tmp_path)
    assert schema(stored) == schema(fresh.conn)
    stored.close()
    fresh.close()


@pytest.mark.parametrize("version", stored_versions())
def test_a_stored_database_is_read_as_it_was(tmp_path, version):
    spool = copied(tmp_path)
    shutil.copy(STORED.parent / f"v{version}.db", spool.db)
    states = {job["id"]: job["state"] for job in spool.json("list")["jobs"]}
    assert states == {
        1: "queued", 2: "queued", 3: "queued", 4: "running", 5: "done", 6: "dead", 7: "canceled", 8: "queued",
    }  # fmt: skip
    assert spool.json("list", "--tag", "team=a")["jobs"][0]["id"] == 1
    assert spool.json("list", "--key", "nightly")["count"] == 2
    show = spool.show(6)
    assert show["job"]["argv"] == ["sh", "-c", "exit 3 # \ufffd"]
    assert [attempt["state"] for attempt in show["attempts"]] == ["failed", "failed"]
    assert [event["event"] for event in show["events"]] == [
        "added",
        "claimed",
        "failed",
        "claimed",
        "failed",
        "dead",
    ]
    assert spool.show(7)["job"]["cwd"] == "/tmp/\ufffd"
    assert spool.show(8)["job"]["payload"] == {"resize": "a.jpg"}
    counts = spool.json("status")["counts"]
    assert (counts["queued"], counts["running"], counts["done"], counts["dead"], counts["canceled"]) == (
        4,
        1,
        1,
        1,
        1,
    )
    assert spool.json("status")["orphaned"] == 1
    assert spool.json("status")["scheduled"] == 1
    assert spool.json("feedback", "6")["exit_code"] == 3
    for words in (["list"], ["status"], ["events"], *(["show", str(n)] for n in range(1, 9))):
        assert spool.run(*words).exit == 0


def test_a_stored_database_is_worked_to_its_end(tmp_path):
    spool = copied(tmp_path)
    spool.work(check=0)
    states = {job["id"]: job["state"] for job in spool.json("list")["jobs"]}
    assert states == {
        1: "done", 2: "queued", 3: "done", 4: "done", 5: "done", 6: "dead", 7: "canceled", 8: "queued",
    }  # fmt: skip
    events = [event["event"] for event in spool.show(4)["events"]]
    assert events == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert spool.json("retry", "6")["state"] == "queued"
    assert spool.add() == 9
    spool.close()


@pytest.fixture
def two_steps(monkeypatch):
    """A schema two versions ahead of the present one, with the steps to it."""
    from spoolctl.store import migrate

    now = ddl.VERSION
    monkeypatch.setattr(ddl, "VERSION", now + 2)
    monkeypatch.setitem(migrate.STEPS, now, "ALTER TABLE jobs ADD COLUMN extra TEXT;")
    monkeypatch.setitem(
        migrate.STEPS,
        now + 1,
        "CREATE TABLE more (x INTEGER PRIMARY KEY);\nCREATE TRIGGER t AFTER INSERT ON more BEGIN\n"
        "  DELETE FROM pruned;\n  DELETE FROM pruned;\nEND;\nINSERT INTO more (x) SELECT id FROM jobs;",
    )
    return migrate


def version_of(path):
    conn = sqlite3.connect(path)
    try:
        return conn.execute("PRAGMA user_version").fetchone()[0]
    finally:
        conn.close()


@pytest.mark.parametrize("words", [["list"], ["add", "--", "true"], ["status"], ["events"], ["cancel", "1"]])
def test_any_call_brings_an_older_database_up(tmp_path, two_steps, words):
    spool = copied(tmp_path)
    before = version_of(spool.db)
    spool.run(words[0], "--json", *words[1:], check=0)
    assert version_of(spool.db) == before + 2
    conn = sqlite3.connect(spool.db)
    assert conn.execute("SELECT count(*) FROM more").fetchone() == (8,)
    assert conn.execute("SELECT count(*) FROM pruned").fetchone() == (0,)
    assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    conn.close()
    assert spool.json("list")["count"] >= 8


def test_a_step_that_fails_changes_nothing_and_the_step_before_it_stays(tmp_path, two_steps, monkeypatch):
    spool = copied(tmp_path)
    before = version_of(spool.db)
    broken = "CREATE TABLE more (x INTEGER PRIMARY KEY);\nINSERT INTO nowhere VALUES (1);"
    with monkeypatch.context() as patch:
        patch.setitem(two_steps.STEPS, before + 1, broken)
        assert spool.run("list", "--json").exit == 3
        assert version_of(spool.db) == before + 1
        conn = sqlite3.connect(spool.db)
        assert conn.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)
        conn.close()
    assert spool.json("list")["count"] == 8
    assert version_of(spool.db) == before + 2


def test_a_missing_step_is_refused(tmp_path, two_steps, monkeypatch):
    spool = copied(tmp_path)
    content = spool.db.read_bytes()
    monkeypatch.delitem(two_steps.STEPS, version_of(spool.db))
    assert spool.run("list", "--json").code == "DB_INVALID"
    assert spool.db.read_bytes() == content


def test_two_processes_that_migrate_at_once_do_it_once(tmp_path, two_steps):
    """The version is read again inside: whoever comes second finds the work done."""
    spool = copied(tmp_path)
    place = paths.Spool(str(spool.db), "flag")
    first, second = (store_open.opened(place, store_open.inspect(place))[0] for _ in range(2))
    two_steps.migrate(first)
    two_steps.migrate(second)
    assert version_of(spool.db) == ddl.VERSION
    assert second.one("SELECT count(*) FROM more") == (8,)
    first.close()
    second.close()


def test_a_reader_that_opened_the_old_schema_is_told_to_restart(tmp_path, two_steps, monkeypatch):
    spool = copied(tmp_path)
    place = paths.Spool(str(spool.db), "flag")
    now = ddl.VERSION
    with monkeypatch.context() as patch:
        patch.setattr(ddl, "VERSION", now - 2)
        old = store_open.open_writer(place)
    spool.run("list", "--json", check=0)
    with monkeypatch.context() as patch:
        patch.setattr(ddl, "VERSION", now - 2)
        with pytest.raises(SpoolctlError) as caught, old.write():
            pytest.fail("a transaction began")
    assert caught.value.code == "DB_INVALID"
    assert "restart" in caught.value.message
    old.close()


def test_in_memory_and_on_disk_the_schema_is_the_same(tmp_path):
    stand_in = store_db.stand_in(paths.Spool("/nowhere/queue.db", "flag"))
    on_disk = opened(tmp_path)
    assert schema(stand_in.conn) == schema(on_disk.conn)
    assert not stand_in.exists
    assert on_disk.exists
    stand_in.close()
    on_disk.close()


def test_a_call_on_no_database_leaves_the_stand_in_to_itself(tmp_path):
    assert run("list", "--json", cwd=tmp_path).data["count"] == 0
    assert os.listdir(tmp_path) == []


MIGRATION = f"""{NEWER}
import shutil
def prepare(path):
    os.makedirs(os.path.dirname(path), 0o700)
    shutil.copy({str(STORED)!r}, path)
    os.chmod(path, 0o600)
"""


def test_a_migration_killed_at_any_line_is_finished_by_the_next_call(in_memory):
    for n, path, _, answer, read, listed, again, second, final, jobs in killed_at_every_line(
        in_memory, MIGRATION
    ):
        assert (read, again, final) == (0, 0, 0), (n, listed, second, jobs)
        notes = [job["note"] for job in jobs["data"]["jobs"]]
        assert notes.count("second") == 1, n
        assert notes.count("first") == 1 or not answer, n
        conn = sqlite3.connect(path)
        assert conn.execute("PRAGMA user_version").fetchone() == (ddl.VERSION + 2,), n
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)], n
        assert conn.execute("SELECT count(*) FROM more").fetchone() == (8,), n
        conn.close()
