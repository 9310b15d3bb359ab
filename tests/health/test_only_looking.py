"""doctor changes no byte of a queue and comes to an end; what it says of owners, locks and versions."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from looking import change, damage, last
from support import wait_until, words_of

from spoolctl.contract import limits
from spoolctl.health import bound, database, deep, machine
from spoolctl.store import health
from spoolctl.work import proc

PROC = pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="needs the kernel's table of locks")
ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


def check(answer, name):
    return next(one for one in answer.data["checks"] if one["id"] == name)


# --- not a byte -------------------------------------------------------------------------------------------


def state(folder):
    """All that a look could change: names, modes, sizes, times, contents."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        info = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, content)
    return found


def nothing(spool):
    pass


def closed(spool):
    spool.add()
    spool.work()
    assert not (spool.db.parent / "queue.db-wal").exists()


def attached(spool):
    """A worker that is stopped, so that only the doctor can be the one who changes something."""
    job = spool.add("--", "sleep", "60")
    worker = spool.start("work")
    spool.wait_for(job, "running")
    wait_until(lambda: last(spool, job)["pid"], 20)
    wait_until(lambda: stopped_free(spool, worker), 20)
    assert (spool.db.parent / "queue.db-wal").stat().st_size > 0


def stopped_free(spool, worker):
    """Stop a worker; it goes on again if it has the gate or a lock, which it would keep."""
    worker.send_signal(signal.SIGSTOP)
    os.waitpid(worker.pid, os.WUNTRACED)
    try:
        with (
            open(spool.db.parent / "gate") as gate,
            closing(sqlite3.connect(spool.db, timeout=0, isolation_level=None)) as db,
        ):
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            db.execute("BEGIN IMMEDIATE")
        return True
    except (BlockingIOError, sqlite3.OperationalError):
        worker.send_signal(signal.SIGCONT)
        return False


def killed(spool):
    """The log and its index of a process that died."""
    spool.add()
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute(\"UPDATE jobs SET note = 'x'\"); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, spool.db], check=True)
    assert (spool.db.parent / "queue.db-shm").exists()


def garbage(spool):
    spool.db.parent.mkdir(mode=0o700)
    spool.db.write_bytes(b"SQLite format 3\0" + bytes(5000))


@pytest.mark.parametrize("made", [nothing, closed, attached, killed, garbage])
def test_not_a_byte_of_a_queue_is_changed(spool, made):
    made(spool)
    before = state(spool.path)
    for words in ((), ("--deep",)):
        answer = spool.cli("doctor", "--json", *words, check=3 if made is garbage else 0)
        assert state(spool.path) == before, answer
    if made is killed:  # and what only the log holds was seen
        assert spool.json("show", "1")["job"]["note"] == "x"


def test_a_log_without_its_index_is_read_too(spool):
    """As in a copy of the two files: the index is made, and is all that is new."""
    killed(spool)
    (spool.db.parent / "queue.db-shm").unlink()
    before = state(spool.db.parent)
    assert spool.cli("doctor", "--json", "--deep", check=0).data["ready"]
    after = state(spool.db.parent)
    assert set(after) - set(before) <= {f"{spool.db}-shm"}
    assert {name: after[name] for name in before if name != str(spool.db.parent)} == {
        name: before[name] for name in before if name != str(spool.db.parent)
    }
    assert spool.json("show", "1")["job"]["note"] == "x"


def test_an_older_schema_is_told_and_left(spool, monkeypatch):
    spool.add()
    before = state(spool.path)
    monkeypatch.setattr(health.ddl, "VERSION", 2)
    assert check(spool.run("doctor", "--json", check=3), "schema_version")["status"] == "fail"
    monkeypatch.setattr("spoolctl.store.migrate.STEPS", {1: "SELECT 1;"})
    answer = spool.run("doctor", "--json", check=0)
    assert check(answer, "schema_version")["status"] == "warn"
    assert check(answer, "contract_metadata")["blocked_by"] == "schema_version"
    assert state(spool.path) == before
    spool.run(*words_of(check(answer, "schema_version")["remediation"])[1:], check=0)
    answer = spool.run("doctor", "--json", check=0)
    assert check(answer, "schema_version")["message"] == "schema 2"
    assert {one["status"] for one in answer.data["checks"]} <= {"pass", "warn"}


def test_a_failure_that_a_writer_caused_is_looked_at_again(spool, monkeypatch):
    spool.add()
    looks = []

    def torn(db):
        looks.append(db)
        if len(looks) == 1:
            os.utime(spool.db)
            raise sqlite3.DatabaseError("database disk image is malformed")
        return []

    monkeypatch.setattr(health, "problems", torn)
    assert spool.json("doctor")["ready"] and len(looks) == 2
    looks.clear()
    monkeypatch.setattr(os, "utime", lambda path: None)
    assert not spool.run("doctor", "--json", check=3).data["ready"] and len(looks) == 1


# --- an end -----------------------------------------------------------------------------------------------


def test_a_question_ends_when_its_time_is_up():
    conn = sqlite3.connect(":memory:", check_same_thread=False)
    began = time.monotonic()
    with bound.Bound(conn, 0.05) as late:
        conn.execute(ENDLESS).fetchall()
    assert late.hit and time.monotonic() - began < 30
    with bound.Bound(conn, 30) as prompt:
        assert conn.execute("SELECT 1").fetchone() == (1,)
    assert not prompt.hit
    with pytest.raises(sqlite3.OperationalError, match="no such table"), bound.Bound(conn, 30):
        conn.execute("SELECT x FROM nowhere")


def test_what_was_not_finished_is_told_and_no_failure(spool, monkeypatch):
    spool.add("--", "echo", "x")
    spool.work()
    monkeypatch.setattr(health, "FIRST_PROBLEMS", ENDLESS)
    monkeypatch.setattr(health, "RECOUNT", ENDLESS)
    monkeypatch.setattr(database, "MOMENT", 0.05)
    monkeypatch.setattr(database, "SMALL", 0)
    monkeypatch.setattr(deep, "PAGES", 0.05)
    monkeypatch.setattr(deep, "ROWS", 0.05)
    monkeypatch.setattr(deep, "FILES", -1)
    answer = spool.run("doctor", "--json", "--deep", check=0)
    for name in ("quick_check", "counts", "output_size"):
        one = check(answer, name)
        assert one["status"] == "warn" and "not finished in" in one["message"], one
    assert check(answer, "sqlite_open_readwrite")["status"] == "pass"


HOLDERS = {
    "a transaction": "c.execute('BEGIN IMMEDIATE')",
    "the whole file": "c.execute('PRAGMA locking_mode = EXCLUSIVE'); c.execute('BEGIN IMMEDIATE')",
    "the gate": "f = open(sys.argv[1].replace('queue.db', 'gate')); fcntl.flock(f, fcntl.LOCK_EX)",
}


@PROC
@pytest.mark.parametrize("what", HOLDERS)
def test_a_lock_that_is_never_let_go_is_found_with_whoever_has_it(spool, monkeypatch, what):
    spool.add()
    monkeypatch.setattr(database, "HELD", 0.2)
    monkeypatch.setattr(health, "PATIENCE", 0.1)
    script = (
        "import fcntl, sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); "
        f"{HOLDERS[what]}; print(flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, spool.db], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline()
        one = check(spool.run("doctor", "--json", check=3), "sqlite_open_readwrite")
        assert one["status"] == "fail"
        if f"process {holder.pid}" not in one["message"]:  # a container's numbers, or a file system's
            assert what == "the whole file", one
        else:
            assert one["remediation"] == f"ps -fp {holder.pid}"
    finally:
        holder.kill()
        holder.communicate()
    assert spool.json("doctor")["ready"]


@PROC
def test_a_lock_that_goes_from_hand_to_hand_is_no_failure(spool, monkeypatch):
    spool.add()
    hands = iter(range(1, 1000))
    monkeypatch.setattr(database, "_writers", lambda scene: {next(hands)})
    assert spool.json("doctor")["ready"]


def test_a_lock_that_a_call_would_wait_for_is_no_failure():
    assert database.HELD >= limits.LOCK_PATIENCE and health.PATIENCE >= limits.LOCK_PATIENCE


def test_where_no_table_of_locks_is_it_says_so(spool, monkeypatch):
    spool.add()
    monkeypatch.setattr(database, "LOCKS", str(spool.path / "none"))
    one = check(spool.run("doctor", "--json", check=0), "sqlite_open_readwrite")
    assert one["status"] == "pass" and one["message"].endswith("keeps it locked cannot be told here")


# --- owners -----------------------------------------------------------------------------------------------


def test_a_job_whose_owner_cannot_be_judged_is_named_and_taken_back(spool):
    job = spool.add("--", "sleep", "60")
    worker = spool.start("work", "--worker-id", "lost")
    spool.wait_for(job, "running")
    leader = wait_until(lambda: last(spool, job)["pid"], 20)
    # Alive, and in another namespace by its row: the lock alone speaks for it.
    change(spool, "UPDATE workers SET pid_ns = 'pid:[1]'")
    one = check(spool.run("doctor", "--json", check=0), "worker_identity")
    assert one["status"] == "warn" and "another pid namespace" in one["message"]
    worker.kill()
    worker.wait()
    for lock in (spool.db.parent / "workers").glob("*.lock"):
        lock.unlink()
    answer = spool.run("doctor", "--json", check=0)
    one = check(answer, "worker_identity")
    assert one["status"] == "warn" and "lost" in one["message"] and f"job {job} " in one["message"]
    assert one["remediation"] == f"spoolctl retry {job} --force --unverified"
    os.kill(leader, signal.SIGKILL)
    spool.cli(*one["remediation"].split()[1:], check=0)
    assert check(spool.run("doctor", "--json", check=0), "worker_identity")["status"] == "pass"
    assert spool.state(job) == "queued"


@pytest.mark.parametrize("name", ["boot_id", "pid_namespace"])
def test_a_machine_that_does_not_tell_who_lives_is_warned_of(spool, monkeypatch, name):
    spool.add()
    monkeypatch.setattr(proc, name, lambda: None)
    one = check(spool.run("doctor", "--json", check=0), "worker_identity")
    assert (one["status"], one["remediation"]) == ("warn", None)


# --- SQLite -----------------------------------------------------------------------------------------------


def test_the_versions_that_can_lose_a_commit_are_known():
    bad = [(3, 7, 0), (3, 34, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 2)]
    good = [(3, 6, 23), (3, 44, 6), (3, 44, 9), (3, 50, 7), (3, 51, 3), (3, 52, 0), (4, 0, 0)]
    assert [version for version in bad + good if machine.resets_wal(version)] == bad


def test_what_sqlite_it_is_decides(spool, monkeypatch):
    for version, status, names in (
        ((3, 33, 9), 3, {"sqlite_version": "fail", "sqlite_wal_reset": "warn"}),
        ((3, 34, 0), 0, {"sqlite_version": "pass", "sqlite_wal_reset": "warn"}),
        ((3, 51, 3), 0, {"sqlite_version": "pass", "sqlite_wal_reset": "pass"}),
    ):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        answer = spool.run("doctor", "--json", check=status)
        assert {name: check(answer, name)["status"] for name in names} == names


def test_the_room_that_is_needed_is_told(spool, monkeypatch):
    spool.add()
    monkeypatch.setattr(machine, "ROOM_FAIL", 2**60)
    one = check(spool.run("doctor", "--json", check=3), "disk_space")
    assert one["status"] == "fail" and "1048576 TiB" in one["message"]


def test_a_bad_row_hinders_nobody_but_its_job(spool, monkeypatch):
    spool.add()
    damage(spool, "UPDATE jobs SET argv = NULL")
    assert spool.json("doctor")["ready"]
    assert spool.run("add", "--json", "--", "true").exit == 0
    monkeypatch.setattr(health, "FIRST_PROBLEMS", "SELECT 'row 1 missing from index x'")
    assert spool.json("doctor")["ready"]
    monkeypatch.setattr(deep, "PAGES", 60)
    assert check(spool.run("doctor", "--json", "--deep", check=3), "quick_check")["status"] == "fail"
