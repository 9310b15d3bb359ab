"""Promise 10: nobody but the owning user can read, submit, or put commands in. Two real users."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest
from people import STRANGER
from support import clean_env, refused

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture(params=["root", "plain user"])
def user(request, spool, person):
    """Calls as root and as a plain user: (call, queue folder, the user's uid)."""
    if request.param == "root":
        if os.geteuid() != 0:
            pytest.skip("not root")
        return Root(spool)
    return person


class Root:
    """The face of `person` for the user who runs the tests."""

    def __init__(self, spool):
        self.spool = spool
        self.path, self.db, self.uid = spool.path, spool.db, os.geteuid()

    def add(self, *words):
        return self.spool.add(*words)

    def json(self, *words):
        return self.spool.cli(words[0], "--json", *words[1:]).data

    def code(self, *words):
        return self.spool.cli(words[0], "--json", *words[1:]).code

    def warnings(self, *words):
        answer = self.spool.cli(words[0], "--json", *words[1:])
        assert answer.exit == 0, answer
        return answer.warnings


# --- a second user ----------------------------------------------------------------------------------------


def test_another_user_can_neither_read_nor_submit_nor_see_output(person, stranger):
    ran = person.add("-c", "echo secret output; exit 1", "--max-retries", "0", "--note", "secret note")
    person.json("work", "--drain")
    queued = person.add("--env", "A=secret", "--", "true")
    other = sqlite3.connect(person.db)  # so that -wal and -shm lie there too
    with closing(other):
        other.execute("SELECT count(*) FROM jobs").fetchone()
        before = person.json("status")
        at = ("--db", str(person.db))
        for words in (
            ["list"], ["status"], ["show", str(ran)], ["output", str(ran)], ["feedback", str(ran)],
            ["events"], ["add", "--", "true"], ["work", "--drain"], ["work", "--drain", "--allow-shared"],
            ["cancel", str(queued)], ["retry", str(ran)], ["wait", str(ran)],
            ["prune", "--older-than", "0", "--yes"],
        ):  # fmt: skip
            status, answer = stranger.run(words[0], *at, *words[1:])
            assert not answer["ok"] and answer["data"] is None, words
            assert "secret" not in str(answer)
            # Nor by the way of the directory itself.
            assert stranger.code(*words) in ("SAFETY_BLOCK", "DB_READONLY", "DB_INVALID"), words
        folder = person.db.parent
        names = [folder, *folder.rglob("*")]
        assert {path.name for path in names} >= {
            "queue.db",
            "queue.db-wal",
            "stdout",
            "output",
            "workers",
            "gate",
        }
        for path in names:
            read = "ls" if path.is_dir() else "cat"
            assert stranger.shell(f"{read} '{path}' 2>&1; test -w '{path}' && echo may write")[0] != 0, path
        assert person.json("status") == before
    assert stranger.shell("ls .spoolctl")[0] != 0


# --- what others own or may write -------------------------------------------------------------------------


def db_for_all(user):
    user.db.chmod(0o666)


def db_for_the_group(user):
    user.db.chmod(0o620)


def folder_for_all(user):
    user.db.parent.chmod(0o777)


def a_strangers_db(user):
    os.chown(user.db, STRANGER, STRANGER)
    user.db.chmod(0o666)


def a_strangers_output(user):
    (user.db.parent / "output").mkdir()
    (user.db.parent / "output").chmod(0o777)
    os.chown(user.db.parent / "output", STRANGER, STRANGER)


def output_for_all(user):
    (user.db.parent / "output").mkdir()
    os.chown(user.db.parent / "output", user.uid, -1)
    (user.db.parent / "output").chmod(0o777)


def a_strangers_gate(user):
    gate = user.db.parent / "gate"
    gate.unlink()
    gate.touch()
    gate.chmod(0o666)
    os.chown(gate, STRANGER, STRANGER)


@pytest.mark.parametrize(
    "problem",
    [
        db_for_all,
        db_for_the_group,
        folder_for_all,
        output_for_all,
        pytest.param(a_strangers_db, marks=ROOT_ONLY),
        pytest.param(a_strangers_output, marks=ROOT_ONLY),
        pytest.param(a_strangers_gate, marks=ROOT_ONLY),
    ],
)
def test_work_refuses_what_others_own_or_may_write_unless_it_is_told_to(user, problem):
    job = user.add("-c", "echo ran >ran")
    problem(user)
    for words in (["work", "--drain"], ["work", "--once"], ["work", "--idle-timeout", "0"]):
        assert user.code(*words) == "SAFETY_BLOCK", words
    assert user.json("show", str(job))["job"]["state"] == "queued"
    assert not (user.path / "ran").exists()
    assert not (user.db.parent / "workers").exists()  # nothing was registered
    assert user.warnings("work", "--drain", "--allow-shared") == ["SHARED_PERMISSIONS"]
    assert (user.path / "ran").exists()


@ROOT_ONLY
def test_work_refuses_a_queue_of_ours_in_a_strangers_directory(user):
    """Its owner can put a log beside the database, whatever the modes say; root's, as /tmp, is fine."""
    folder = user.path / "theirs"
    folder.mkdir()
    os.chown(folder, user.uid, user.uid)
    at = ("--db", str(folder / "queue.db"))
    user.json("add", *at, "--", "true")
    folder.chmod(0o1777)
    os.chown(folder, STRANGER, STRANGER)
    assert user.code("work", *at, "--drain") == "SAFETY_BLOCK"
    os.chown(folder, 0, 0)
    assert user.code("work", *at, "--drain") is None


@pytest.mark.parametrize("problem", [db_for_all, folder_for_all, output_for_all])
def test_the_remedy_that_is_named_works(user, problem):
    user.add()
    problem(user)
    if isinstance(user, Root):
        error = user.spool.cli("work", "--drain", "--json").error
    else:
        error = user.run("work", "--drain")[1]["errors"][0]
    subprocess.run(shlex.split(error["remediation"]), check=True)
    assert user.warnings("work", "--drain") == []


def test_a_world_writable_directory_with_the_sticky_bit_is_not_refused(user):
    job = user.add()
    user.db.parent.chmod(0o1777)
    assert user.code("work", "--drain") is None
    assert user.json("show", str(job))["job"]["state"] == "done"


def test_a_directory_of_a_group_is_told_unless_the_group_is_the_users_own(user):
    import grp
    import pwd

    user.add()
    folder = user.db.parent
    folder.chmod(0o770)
    try:
        entry = pwd.getpwuid(user.uid)
        group = grp.getgrgid(folder.stat().st_gid)
        own = entry.pw_gid == group.gr_gid and group.gr_name == entry.pw_name and not group.gr_mem
    except KeyError:
        own = False
    assert user.warnings("work", "--drain") == ([] if own else ["SHARED_PERMISSIONS"])
    if os.geteuid() == 0:
        os.chown(folder, -1, 12_345)  # a group that nobody knows
        assert user.warnings("work", "--drain") == ["SHARED_PERMISSIONS"]
        assert user.warnings("add", "--", "true") == ["NO_WORKER"]


# --- what a stranger puts in our way ----------------------------------------------------------------------


def forged(stranger):
    """The log of a queue of the stranger's: every page of it, with a command to run."""
    stranger.path = stranger.path / "strange"
    folder = stranger.path
    with closing(sqlite3.connect(folder / "queue.db", isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("VACUUM")
        return (folder / "queue.db-wal").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "mode"),
    [("-wal", 0o1777), ("-wal", 0o770), ("-wal", 0o755), ("-journal", 0o1777), ("-shm", 0o1777)],
    ids=["sticky", "group", "theirs", "journal", "shm"],
)
def test_a_log_that_a_stranger_put_beside_the_database_is_not_taken_over(person, stranger, suffix, mode):
    """SQLite would replay it: the queue would hold the stranger's commands, to be run as us."""
    folder = person.path / "shared"
    folder.mkdir()
    os.chown(folder, person.uid, STRANGER)
    at = ("--db", str(folder / "queue.db"))
    person.json("add", *at, "-c", "echo mine >mine")
    folder.chmod(mode)
    if mode == 0o755:  # a directory of theirs, with a database of ours that was once made there
        os.chown(folder, STRANGER, STRANGER)
    strange = person.path / "strange"
    strange.mkdir()
    os.chown(strange, STRANGER, STRANGER)
    stranger.json("add", "--db", str(strange / "queue.db"), "-c", f"echo theirs >{person.path}/theirs")
    log = folder / f"queue.db{suffix}"
    log.write_bytes(forged(stranger) if suffix == "-wal" else b"anything")
    log.chmod(0o666)
    os.chown(log, STRANGER, STRANGER)
    content = (folder / "queue.db").read_bytes()
    for words in (
        ["work", "--drain"],
        ["add", "--", "true"],
        ["list"],
        ["status"],
        ["cancel", "1"],
        ["events"],
    ):
        assert person.code(words[0], *at, *words[1:]) == "SAFETY_BLOCK", words
    assert (folder / "queue.db").read_bytes() == content
    log.unlink()
    os.chown(folder, person.uid, person.uid)
    assert person.json("work", *at, "--drain")["succeeded"] == 1
    assert (person.path / "mine").exists() and not (person.path / "theirs").exists()


@ROOT_ONLY
@pytest.mark.parametrize("owner", [0, STRANGER], ids=["root", "stranger"])
def test_a_spool_of_another_user_is_passed_over_or_refused_for_a_person(person, owner):
    person.add("--note", "own", "--", "true")
    middle = person.path / "a" / ".spoolctl"
    below = person.path / "a" / "b"
    below.mkdir(parents=True)
    middle.mkdir()
    (middle / "config.json").write_text('{"version": 1, "defaults": {"queue": "evil"}}')
    os.chown(middle, owner, owner)
    for folder in (below, person.path / "a"):
        (job,) = person.json("list", cwd=folder)["jobs"]
        assert (job["note"], job["queue"]) == ("own", "default")
    (person.path / ".spoolctl").rename(person.path / "away")
    for words in (["list"], ["add", "--", "true"], ["work", "--drain"], ["config-show"]):
        assert person.code(*words, cwd=person.path / "a") == "SAFETY_BLOCK", words
    assert sorted(os.listdir(middle)) == ["config.json"]


# --- from the first moment --------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_everything_is_made_private_and_nothing_is_made_so_later(spool):
    """With no umask at all, each system call that makes something asks for 0600 or 0700 itself."""
    trace = spool.path / "trace"
    line = 'umask 0; "$@" add -c "echo hi" && "$@" add --db a/b/q.db -- true && "$@" work --drain -j 2 && '
    line += '"$@" work --drain --db a/b/q.db'
    calls = "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,chmod,fchmod,fchmodat"
    done = subprocess.run(
        ["strace", "-f", "-y", "-qq", "-e", calls, "-e", "signal=none", "-o", str(trace), "sh", "-c", line,
         "sh", sys.executable, "-B", "-m", "spoolctl"],
        cwd=spool.path, env=clean_env(PWD=str(spool.path)), capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    if "ptrace" in done.stderr.lower() and done.returncode:
        pytest.skip(f"strace may not trace: {done.stderr.strip()[:200]}")
    assert done.returncode == 0, done.stderr
    made: dict[str, int] = {}
    for call in trace.read_text().splitlines():
        found = re.search(r'(\w+)\((?:[^"]*, )?"([^"]+)"(.*)\) = (?!-1)', call)
        if re.search(r"\bf?chmod", call) and str(spool.path) in call:
            raise AssertionError(f"made private later: {call}")
        if not found:
            continue
        name, path, rest = found.groups()
        if not os.path.join(spool.path, path).startswith(f"{spool.path}/"):
            continue
        if "mkdir" in name or "O_CREAT" in rest:
            mode = int(rest.rpartition(",")[2].strip(), 8)
            made[os.path.relpath(os.path.join(spool.path, path), spool.path)] = mode
            assert mode == (0o700 if "mkdir" in name else 0o600), call
    names = " ".join(made)
    for part in (
        ".spoolctl",
        "queue.db",
        "queue.db-wal",
        "gate",
        "output",
        "stdout",
        "workers",
        ".lock",
        "a/b",
    ):
        assert part in names, (part, made)
    for path in [spool.db.parent, *spool.db.parent.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


UNPROVEN = {
    "a file of words": b"notes\n",
    "another database": None,
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_work_offers_to_change_only_what_is_proven_to_be_a_queue(spool, name):
    place = spool.path / "it"
    if UNPROVEN[name] is None:
        sqlite3.connect(place).execute("CREATE TABLE t (a)").connection.close()
    else:
        place.write_bytes(UNPROVEN[name])
    place.chmod(0o666)
    error = refused(spool.cli("work", "--once", "--json", "--db", "it"), "DB_INVALID")
    assert error["remediation"] == "spoolctl doctor --db it"
    assert place.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_a_directory_that_others_may_write_for_good_reasons_is_left(spool, mode):
    folder = spool.path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    spool.json("add", "--db", "shared/q.db", "--", "true")
    (folder / "q.db").chmod(0o666)
    answer = spool.cli("work", "--once", "--json", "--db", "shared/q.db")
    assert refused(answer, "SAFETY_BLOCK")["remediation"] == f"chmod go-w {folder}/q.db"
