"""SPEC 7: what may be opened as a queue, and what a new one is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from support import ROOT, Answer, checked, clean_env, command, refused

from spoolctl import paths
from spoolctl.errors import SpoolctlError
from spoolctl.store import db as db_module
from spoolctl.store import ddl
from spoolctl.store import open as store_open

STORED = ROOT / "tests" / "databases" / "v1.db"

# One call of every kind; none of them may change a file that is no queue of ours.
CALLS = [
    ["list"], ["status"], ["show", "1"], ["feedback", "1"], ["output", "1"], ["events"],
    ["wait", "1", "--timeout", "0.02"], ["add", "--", "true"], ["add", "--key", "k", "--", "true"],
    ["retry", "1"], ["cancel", "1"],
    ["prune", "--older-than", "1h", "--yes"], ["work", "--once"], ["work", "--drain"],
]  # fmt: skip


def put(spool, content):
    spool.db.parent.mkdir(exist_ok=True)
    spool.db.write_bytes(content)


def refused_by_all(spool, code="DB_INVALID", calls=CALLS):
    """Every call answers with the code and leaves everything as it was."""
    before = {path: path.read_bytes() for path in spool.path.rglob("*") if path.is_file()}
    for words in calls:
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code == code, answer
        assert answer.exit == 3
        after = {path: path.read_bytes() for path in spool.path.rglob("*") if path.is_file()}
        assert after.keys() == before.keys(), words
        assert after == before, words


def foreign(*statements):
    """The bytes of somebody else's SQLite database."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        conn = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            conn.execute(statement)
        conn.close()
        return path.read_bytes()


# --- what is no queue -----------------------------------------------------------------------------------

GARBAGE = {
    "text": b"hello\n",
    "one byte": b"x",
    "zeros": b"\0" * 8192,
    "random": bytes(range(256)) * 64,
    "a header and nothing": b"SQLite format 3\0",
    "a cut header": STORED.read_bytes()[:99],
    "another kind of file": b"\x7fELF" + bytes(5000),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_untouched(spool, name):
    put(spool, GARBAGE[name])
    refused_by_all(spool)


FOREIGN = {
    "with a table": [
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT)",
        "INSERT INTO jobs VALUES (1, 'x')",
    ],
    "with a version": ["PRAGMA user_version = 1", "CREATE TABLE t (x)"],
    "with a version and no table": ["PRAGMA user_version = 1"],
    "with an application": ["PRAGMA application_id = 77", "CREATE TABLE t (x)"],
    "with a write-ahead log": ["PRAGMA journal_mode = WAL", "CREATE TABLE t (x)"],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_somebody_elses_database_is_refused_and_untouched(spool, name):
    put(spool, foreign(*FOREIGN[name]))
    refused_by_all(spool)


@pytest.mark.parametrize("version", [ddl.VERSION + 1, 99, 2**31 - 1])
def test_a_newer_schema_is_refused_and_says_to_upgrade(spool, version):
    spool.add()
    conn = sqlite3.connect(spool.db)
    conn.execute(f"PRAGMA user_version = {version}")
    conn.close()
    spool.run("list")
    refused_by_all(spool)
    error = spool.run("list", "--json").error
    assert "upgrade spoolctl" in error["message"]
    assert str(version) in error["message"]


def test_an_older_schema_nobody_can_bring_up_is_refused_and_untouched(spool):
    spool.add()
    conn = sqlite3.connect(spool.db)
    conn.execute("PRAGMA user_version = -1")
    conn.close()
    content = spool.db.read_bytes()
    for words in CALLS:
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code == "DB_INVALID", answer
    assert spool.db.read_bytes() == content


@pytest.mark.parametrize("keep", [4096, 8192, 10_000, 40_000, 98_303])
def test_a_truncated_queue_never_ends_in_a_fault_of_the_tool(spool, keep):
    put(spool, STORED.read_bytes()[:keep])
    content = spool.db.read_bytes()
    for words in CALLS[:7]:
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code in (None, "DB_INVALID", "NOT_FOUND", "TIMEOUT"), answer
    assert spool.db.read_bytes() == content
    for words in CALLS[7:]:
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code in (None, "DB_INVALID", "NOT_FOUND", "CONFLICT", "IDEMPOTENCY_CONFLICT"), answer


@pytest.mark.parametrize("page", range(1, 24))
def test_a_queue_with_a_damaged_page_never_ends_in_a_fault_of_the_tool(spool, page):
    content = bytearray(STORED.read_bytes())
    content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    put(spool, bytes(content))
    for words in [*CALLS[:7], *CALLS[7:12]]:
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code != "INTERNAL", answer


def test_a_missing_table_is_a_damaged_queue(spool):
    spool.add()
    conn = sqlite3.connect(spool.db)
    conn.execute("DROP TABLE job_events")
    conn.commit()
    conn.close()
    assert spool.run("events", "--json").code == "DB_INVALID"
    assert spool.run("add", "--json", "--", "true").code == "DB_INVALID"


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_file_is_refused(spool, kind):
    path = spool.path / "q.db"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as listener, pytest.MonkeyPatch.context() as patch:
            patch.chdir(spool.path)  # socket paths are short
            listener.bind("q.db")
    else:
        path.symlink_to("/dev/null")
    for words in (["list"], ["add", "--", "true"], ["work", "--once"]):
        answer = spool.run(words[0], "--json", "--db", "q.db", *words[1:])
        assert answer.code == "DB_INVALID", answer
    assert [one.name for one in spool.path.iterdir()] == ["q.db"]


def test_a_file_where_a_directory_should_be(spool):
    (spool.path / "file").write_text("x")
    for words in (["list"], ["add", "--", "true"]):
        answer = spool.run(words[0], "--json", "--db", "file/q.db", *words[1:])
        assert answer.code == "DB_INVALID", answer
        assert answer.exit == 3
    assert spool.files() == ["file"]


def test_a_hard_linked_queue_is_refused_until_one_name_is_left(spool):
    """QUALITY, case 37: each name would have a log of its own."""
    spool.add()
    other = spool.path / "second.db"
    os.link(spool.db, other)
    refused_by_all(spool)
    assert spool.run("list", "--json", "--db", "second.db").code == "DB_INVALID"
    assert "hard link" in spool.run("list", "--json").error["message"]
    other.unlink()
    assert spool.json("list")["count"] == 1


def test_a_database_mounted_as_a_file_is_not_worked(spool):
    """QUALITY, case 37: each side of the mount would have a log of its own."""
    job = spool.add()
    (spool.path / "box").mkdir()
    other = spool.path / "box" / "queue.db"
    other.touch()
    script = 'mount --bind "$0" "$1"; shift; exec "$@"'
    line = ["unshare", "--mount", "sh", "-ec", script, str(spool.db), str(other)]
    try:
        tried = subprocess.run([*line, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare command")
    if tried.returncode:
        pytest.skip(f"cannot mount: {tried.stderr.decode(errors='replace').strip()}")

    def drained(prefix, status):
        words = ["work", "--json", "--drain", "--db", str(other)]
        call = [*prefix, *command(*words)]
        done = subprocess.run(call, cwd=spool.path, env=clean_env(), capture_output=True)
        return checked(Answer(words, done.returncode, done.stdout, done.stderr), {}, check=status)

    error = refused(drained(line, 3), "DB_INVALID")
    assert "mount the directory" in error["message"]
    assert sorted(path.name for path in other.parent.iterdir()) == ["queue.db"]
    # By its own name, and where the directory is mounted, it is one queue.
    whole = ["unshare", "--mount", "sh", "-ec", script, str(spool.db.parent), str(other.parent)]
    assert drained(whole, 0).data["executed"] == 1
    assert spool.state(job) == "done"


# --- a new database -------------------------------------------------------------------------------------


def test_zero_bytes_are_a_new_database(spool):
    put(spool, b"")
    for words in (["list"], ["status"], ["events"], ["wait", "--all"]):
        assert spool.run(words[0], "--json", *words[1:]).exit == 0
        assert spool.db.stat().st_size == 0
    assert spool.run("show", "--json", "1").code == "NOT_FOUND"
    answer = spool.run("add", "--json", "--", "true", check=0)
    assert "DB_CREATED" in answer.warnings
    assert spool.json("list")["count"] == 1


def test_a_new_database_is_what_the_contract_says(spool):
    spool.add()
    conn = sqlite3.connect(spool.db)
    assert pragma(conn, "application_id") == ddl.APPLICATION_ID
    assert pragma(conn, "user_version") == ddl.VERSION
    assert pragma(conn, "auto_vacuum") == 2
    assert pragma(conn, "journal_mode") == "wal"
    assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert dict(conn.execute("SELECT key, value FROM meta")) == {"tool": "spoolctl", "contract_version": "2"}
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables - {"sqlite_sequence"} == {
        "jobs", "attempts", "job_events", "workers", "job_tags", "counts", "pruned", "meta",
    }  # fmt: skip
    conn.close()


def pragma(conn, name):
    return conn.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_connection_is_set_up_for_the_guarded_checkpoint(tmp_path):
    db = opened(tmp_path)
    assert pragma(db.conn, "wal_autocheckpoint") == 0
    # Below the trigger: a WAL that is kept at its size would otherwise trigger at every look.
    assert pragma(db.conn, "journal_size_limit") == db_module.WAL_KEPT < db_module.WORK_TRIGGER
    db.close()


def test_what_is_promised_is_written_in_full_and_the_rest_not(tmp_path):
    db = opened(tmp_path)
    for full, mode in ((True, 2), (False, 1), (True, 2), (True, 2), (False, 1)):
        with db.write(full=full) as conn:
            assert pragma(conn, "synchronous") == mode
    db.close()


def opened(folder, create=True):
    return store_open.open_writer(paths.Spool(os.path.realpath(folder) + "/queue.db", "flag"), create)


def test_ids_are_never_used_again(spool):
    first = spool.add()
    conn = sqlite3.connect(spool.db)
    conn.execute("DELETE FROM jobs")
    conn.commit()
    conn.close()
    assert spool.add() == first + 1


def test_a_write_into_a_deleted_or_replaced_database_is_refused(tmp_path):
    for replace in (False, True):
        folder = tmp_path / str(replace)
        folder.mkdir()
        db = opened(folder)
        os.rename(folder / "queue.db", folder / "aside.db")
        if replace:
            shutil.copy(folder / "aside.db", folder / "queue.db")
        with pytest.raises(SpoolctlError) as caught, db.write():
            pytest.fail("a transaction began")
        assert caught.value.code == "DB_INVALID"
        assert not db.conn.in_transaction
        db.close()


def test_a_write_after_a_migration_underneath_is_refused(tmp_path):
    db = opened(tmp_path)
    other = sqlite3.connect(tmp_path / "queue.db")
    other.execute(f"PRAGMA user_version = {ddl.VERSION + 1}")
    other.close()
    with pytest.raises(SpoolctlError) as caught, db.write():
        pytest.fail("a transaction began")
    assert caught.value.code == "DB_INVALID"
    assert "restart" in caught.value.message
    db.close()


def test_an_exception_takes_everything_back_and_the_next_write_works(tmp_path):
    db = opened(tmp_path)
    with pytest.raises(ZeroDivisionError), db.write() as conn:
        conn.execute("INSERT INTO meta VALUES ('x', 'y')")
        raise ZeroDivisionError
    assert db.one("SELECT count(*) FROM meta WHERE key = 'x'") == (0,)
    with db.write() as conn:
        conn.execute("INSERT INTO meta VALUES ('x', 'y')")
    assert db.one("SELECT count(*) FROM meta WHERE key = 'x'") == (1,)
    db.close()


def test_a_connection_of_the_parent_process_is_not_written_through(tmp_path):
    db = opened(tmp_path)
    db.pid += 1
    with pytest.raises(SpoolctlError) as caught, db.write():
        pytest.fail("a transaction began")
    assert caught.value.code == "INTERNAL"
    db.pid -= 1
    db.close()
