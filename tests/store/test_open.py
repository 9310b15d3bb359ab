"""SPEC 7: what may be opened as a queue, how one comes to be, and what a damaged or foreign file meets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, Spool, clean_env, run, strict_json

from spoolctl import paths
from spoolctl.errors import SpoolctlError
from spoolctl.store import db as store_db
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


# --- what is no queue -------------------------------------------------------------------------------------

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
    assert "upgrade spoolctl" in error["remediation"]
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


# --- a new database ---------------------------------------------------------------------------------------


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
    assert pragma(db.conn, "journal_size_limit") == 1_048_576
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
    assert "restart" in caught.value.remediation
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


# --- without the right to write ---------------------------------------------------------------------------

NOBODY = 65_534


def interpreters():
    names = [sys.executable, *(f"python3.{n}" for n in range(13, 9, -1)), "python3"]
    for name in names:
        path = shutil.which(name)
        if path:
            yield path
    for folder in ("/usr/bin", "/usr/local/bin"):
        for name in names[1:]:
            if os.access(f"{folder}/{name}", os.X_OK):
                yield f"{folder}/{name}"


class PlainUser:
    """Calls as a user who is not root, in a directory of that user."""

    def __init__(self, python, path):
        self.python = python
        self.path = path
        self.root = os.geteuid() == 0

    def popen(self):
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.root else {}

    def call(self, *words):
        done = subprocess.run(
            [self.python, "-m", "spoolctl", *words], cwd=self.path, env=clean_env(HOME=str(self.path)),
            capture_output=True, timeout=60, **self.popen(),
        )  # fmt: skip
        assert b"Traceback" not in done.stderr, done
        return done.returncode, strict_json(done.stdout.decode()) if done.stdout else None

    def code(self, *words):
        status, answer = self.call(*words)
        assert answer is not None
        if answer["ok"]:
            assert status in (0, 6), answer
            return None
        return answer["errors"][0]["code"]

    def add(self):
        status, answer = self.call("add", "--json", "--", "true")
        assert status == 0, answer


@pytest.fixture
def plain_user():
    import tempfile

    root = os.geteuid() == 0
    folder = tempfile.mkdtemp()  # not pytest's: those are closed to others
    try:
        if root:
            os.chown(folder, NOBODY, NOBODY)
        for python in interpreters():
            user = PlainUser(python, Path(folder))
            try:
                done = subprocess.run(
                    [python, "-c", "import sys, sqlite3, spoolctl; sys.exit(sys.version_info < (3, 10))"],
                    cwd=folder, env=clean_env(), capture_output=True, timeout=60, **user.popen(),
                )  # fmt: skip
            except OSError:
                continue
            if done.returncode == 0:
                break
        else:
            pytest.skip("no Python 3.10 that a plain user may run with this checkout")
        yield user
    finally:
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o700)
        shutil.rmtree(folder)


READS = [["list", "--json"], ["status", "--json"], ["show", "--json", "1"], ["events", "--json"]]
WRITES = [["add", "--json", "--", "true"], ["cancel", "--json", "1"], ["work", "--json", "--drain"]]


def test_a_queue_that_may_not_be_read_is_refused(plain_user):
    plain_user.add()
    path = plain_user.path / ".spoolctl" / "queue.db"
    path.chmod(0)
    for words in READS + WRITES:
        assert plain_user.code(*words) in ("DB_READONLY", "DB_INVALID"), words
    path.chmod(0o600)
    assert plain_user.code("list", "--json") is None


def test_a_queue_that_may_only_be_read_answers_and_takes_nothing(plain_user):
    plain_user.add()
    path = plain_user.path / ".spoolctl" / "queue.db"
    content = path.read_bytes()
    path.chmod(0o400)
    for words in READS:
        assert plain_user.code(*words) is None, words
    for words in WRITES:
        assert plain_user.code(*words) == "DB_READONLY", words
    assert path.read_bytes() == content


def test_a_directory_that_may_not_be_written_takes_nothing(plain_user):
    plain_user.add()
    folder = plain_user.path / ".spoolctl"
    content = (folder / "queue.db").read_bytes()
    (folder / "gate").unlink()
    folder.chmod(0o500)
    for words in READS:
        assert plain_user.code(*words) in (None, "DB_READONLY"), words
    for words in WRITES:
        assert plain_user.code(*words) == "DB_READONLY", words
    assert (folder / "queue.db").read_bytes() == content
    folder.chmod(0o700)
    assert plain_user.code("add", "--json", "--", "true") is None


def test_a_queue_cannot_be_made_where_nothing_may_be_written(plain_user):
    for words in (["add", "--json", "--", "true"], ["add", "--json", "--db", "a/b/q.db", "--", "true"]):
        plain_user.path.chmod(0o500)
        assert plain_user.code(*words) == "DB_READONLY", words
        assert os.listdir(plain_user.path) == []
        assert plain_user.code("list", "--json") is None


def test_a_directory_that_may_not_be_entered_is_refused(plain_user):
    plain_user.add()
    (plain_user.path / ".spoolctl").chmod(0)
    for words in READS + WRITES:
        assert plain_user.code(*words) in ("DB_READONLY", "DB_INVALID", "INVALID_INPUT"), words


# --- many at once -----------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("deep", [False, True])
def test_many_open_a_database_that_does_not_exist_yet(tmp_path, deep):
    """QUALITY, first open: everybody succeeds, one made it, no job is lost."""
    import fcntl

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUNNER], cwd=tmp_path, env=clean_env(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        for _ in range(16)
    ]  # fmt: skip
    (tmp_path / "barrier").touch()
    try:
        for round_ in range(12):
            path = f"a{round_}/b/c/queue.db" if deep else f"q{round_}.db"
            with open(tmp_path / "barrier", "r+") as barrier:
                fcntl.flock(barrier, fcntl.LOCK_EX)
                for n, process in enumerate(processes):
                    verb = "list" if n % 8 == 7 else "add -- true"
                    process.stdin.write(f"--db {path} --json {verb}\n")
                for process in processes:
                    assert process.stdout.readline() == "ready\n"
            answers = []
            for process in processes:
                status, _, answer = process.stdout.readline().partition(" ")
                assert status == "0", answer
                answers.append(strict_json(answer))
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


# --- killed at any line -----------------------------------------------------------------------------------

KILLER = """
import json, os, signal, sys
from spoolctl import cli, paths
from spoolctl.store import open as store_open, ddl, db, gate, migrate, place, jobs, events, faults, bulk
import spoolctl.verbs.add, spoolctl.verbs._job, spoolctl.verbs.list, spoolctl.work.serving
import sqlite3

WATCHED = os.path.join("spoolctl", "store") + os.sep

class Sink:
    def __init__(self, fd): self.fd = fd
    def write(self, data): os.write(self.fd, data)
    def try_write(self, data): return True
    def isatty(self): return False

def call(words, kill_at=0, count=False):
    # In a child: dies at the line of that number in the store, or answers on a pipe; with count it
    # answers which numbers are the first, second and last time of a line.
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        seen, times = 0, {}
        def line(frame, event, arg):
            nonlocal seen
            if event == "line":
                seen += 1
                if seen == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if count:
                    times.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(seen)
            return line
        def enter(frame, event, arg):
            return line if WATCHED in frame.f_code.co_filename else None
        null = os.open(os.devnull, os.O_WRONLY)
        context = cli.Context({"PATH": "/usr/bin:/bin"}, Sink(null if count else writer), Sink(null))
        if kill_at or count:
            sys.settrace(enter)
        status = cli.run(words, context)
        sys.settrace(None)
        context.close()
        if count:
            chosen = {n for all in times.values() for n in (*all[:2], all[-1])}
            os.write(writer, json.dumps(sorted(chosen)).encode())
        os._exit(status)
    os.close(writer)
    out = b""
    while chunk := os.read(reader, 65536):
        out += chunk
    os.close(reader)
    return os.waitpid(pid, 0)[1], out.decode()

base = sys.argv[1]
setup = sys.argv[2] if len(sys.argv) > 2 else ""
if setup:
    exec(setup)
def add(n, count=False):
    path = os.path.join(base, f"{n}", "deep", "queue.db")
    if setup:
        prepare(path)
    return path, *call(["--db", path, "add", "--json", "--note", "first", "--", "true"], n, count)

_, _, numbers = add(0, count=True)
for n in [*json.loads(numbers), 10**9]:
    path, killed, answer = add(n)
    read, listed = call(["--db", path, "list", "--json"])
    again, second = call(["--db", path, "add", "--json", "--note", "second", "--", "true"])
    final, jobs = call(["--db", path, "list", "--json", "--fields", "id,note"])
    print(json.dumps([n, path, killed, answer, read, listed, again, second, final, jobs]), flush=True)
"""


@pytest.fixture
def in_memory(tmp_path):
    """A directory on a file system in memory, where there is one: hundreds of databases are made."""
    import tempfile

    shared = "/dev/shm"
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 200 * 1024**2:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def killed_at_every_line(folder, setup=""):
    """(line, path, the killed call, a reader, the next add, the jobs) for every line of the store, the
    first, second and last time it is reached."""
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(folder), setup],
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stderr == ""
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) > 100, "no line was reached"
    assert rows[-1][2] == 0, "the last call was not killed"
    assert all(row[2] == signal.SIGKILL for row in rows[:-1])
    return rows


def test_a_first_add_killed_at_any_line_leaves_a_database_that_works(in_memory):
    """QUALITY, crash at every step: nothing, an empty file or a whole schema; what was answered is there."""
    for n, path, _, answer, read, listed, again, second, final, jobs in killed_at_every_line(in_memory):
        assert read == 0, (n, listed)
        assert again == 0, (n, second)
        assert final == 0, (n, jobs)
        notes = [job["note"] for job in json.loads(jobs)["data"]["jobs"]]
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


MIGRATION = f"""
import shutil
from spoolctl.store import migrate
ddl.VERSION = {ddl.VERSION + 2}
migrate.STEPS.update({{
    {ddl.VERSION}: "ALTER TABLE jobs ADD COLUMN extra TEXT;",
    {ddl.VERSION + 1}:
        "CREATE TABLE more (x INTEGER PRIMARY KEY);\\nINSERT INTO more (x) SELECT id FROM jobs;",
}})
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
        notes = [job["note"] for job in json.loads(jobs)["data"]["jobs"]]
        assert notes.count("second") == 1, n
        assert notes.count("first") == 1 or not answer, n
        conn = sqlite3.connect(path)
        assert conn.execute("PRAGMA user_version").fetchone() == (ddl.VERSION + 2,), n
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)], n
        assert conn.execute("SELECT count(*) FROM more").fetchone() == (8,), n
        conn.close()


# --- stored databases and migration -----------------------------------------------------------------------


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
    assert "restart" in caught.value.remediation
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
