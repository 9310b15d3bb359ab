"""doctor: each check made to fail for real, its remediation pasted into a shell, `ready` held to its word.

What `ready` means is one sentence: `add -- true` succeeds, and then `work --once` runs it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from looking import change
from people import NOBODY, STRANGER
from support import ROOT, Answer, checked

from spoolctl.health import CHECKS, DEEP, deep

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and mount")
STORED = ROOT / "tests" / "databases" / "v1.db"
IDS = [name for name, _, _ in CHECKS]


class Clinic:
    """A plain user's directory, with `spoolctl` on the PATH of its shell."""

    def __init__(self, person, bin_folder):
        self.person = person
        self.bin = bin_folder
        self.words: list[str] = []  # what every call is given
        self.env: dict[str, str] = {}
        self.before = "true"  # a shell line in front of every call
        self.inside: list[str] = []  # a command that becomes this user where something is mounted

    def sh(self, line, check=True):
        """A shell line as the user: what it printed."""
        env = self.person.env | self.env
        env["PATH"] = f"{self.bin}:{env['PATH']}"
        whoever = {"user": None, "group": None, "extra_groups": None} if self.inside else {}
        status, out = self.person.shell(line, env=env, **whoever)
        assert status == 0 or not check, (line, status, out)
        return status, out

    def call(self, verb, *more, first="true"):
        """`first` and then the call, in one shell; None when `first` failed."""
        words = [verb, "--json", *self.words, *more]
        line = f"{self.before}\n{first} || exit 99\nexec spoolctl {shlex.join(words)}"
        if self.inside:
            line = shlex.join([*self.inside, "sh", "-c", line])
        status, out = self.sh(line, check=False)
        if status == 99:
            return None
        assert out, (words, status)
        return checked(Answer(words, status, out[out.rindex(b'{"ok":') :], _mirror(out)), {})

    def doctor(self, *more, first="true"):
        answer = self.call("doctor", *more, first=first)
        assert answer.json["ok"] and answer.exit == (0 if answer.data["ready"] else 3), answer
        return answer

    def usable(self):
        """Whether a job can be added and then run."""
        add = shlex.join(["spoolctl", "add", *self.words, "--", "true"])
        worked = self.call("work", "--once", first=f"{add} >/dev/null 2>&1")
        return worked is not None and worked.exit == 0 and worked.data.get("result") == "succeeded"


def _mirror(out):
    """stderr is not kept apart by the shell; an error's mirror is made up for the check of the envelope."""
    import json

    errors = json.loads(out[out.rindex(b'{"ok":') :])["errors"]
    return f"spoolctl: {errors[0]['code']}: {errors[0]['message']}\n".encode() if errors else b""


@pytest.fixture
def clinic(person):
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shim = folder / "spoolctl"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(person.python)} -m spoolctl "$@"\n')
    shim.chmod(0o755)
    yield Clinic(person, folder)
    shutil.rmtree(folder)


def check(answer, name):
    return next(one for one in answer.data["checks"] if one["id"] == name)


def statuses(answer):
    return {one["id"]: one["status"] for one in answer.data["checks"]}


# --- what can be mended -----------------------------------------------------------------------------------

# name: (check, status, how it comes to be broken)
MENDED = {
    "config that may not be read": (
        "config_valid", "fail", "{own}; echo '{}' >.spoolctl/config.json; chmod 0 .spoolctl/config.json",
    ),
    "config that is a pipe": ("config_valid", "fail", "{own}; mkfifo .spoolctl/config.json"),
    "a directory that is closed": ("config_valid", "fail", "{add}; chmod 0 .spoolctl"),
    "a directory to read only": (
        "spool_directory_writable", "fail", "{add}; rm .spoolctl/gate; chmod 500 .spoolctl",
    ),
    "a file for a directory": ("spool_directory_writable", "fail", ": >.spoolctl"),
    "a project to read only": ("spool_directory_writable", "fail", "chmod 500 ."),
    "output to read only": ("spool_directory_writable", "fail", "{add}; {work}; chmod 500 .spoolctl/output"),
    "workers to read only": (
        "spool_directory_writable", "fail", "{add}; {work}; chmod 500 .spoolctl/workers",
    ),
    "a gate to read only": ("spool_directory_writable", "fail", "{add}; chmod 400 .spoolctl/gate"),
    "a file for output": ("spool_directory_writable", "fail", "{add}; : >.spoolctl/output"),
    "a directory for a gate": ("spool_directory_writable", "fail", "{own}; mkdir .spoolctl/gate"),
    "a database to read only": ("sqlite_open_readwrite", "fail", "{add}; chmod 400 .spoolctl/queue.db"),
    "a database that is closed": ("sqlite_open_readwrite", "fail", "{add}; chmod 0 .spoolctl/queue.db"),
    "a database for everybody": ("permissions", "fail", "{add}; chmod 666 .spoolctl/queue.db"),
    "a directory for everybody": ("permissions", "fail", "{add}; chmod 777 .spoolctl"),
    "output for everybody": ("permissions", "fail", "{add}; {work}; chmod 777 .spoolctl/output"),
    "a database to be read": (
        "permissions", "warn", "{add}; chmod 755 .spoolctl; chmod 644 .spoolctl/queue.db",
    ),
    "a large log": (
        "wal_size", "warn", "{add}; dd if=/dev/null of=.spoolctl/queue.db-wal bs=1048576 seek=70 2>/dev/null",
    ),
}  # fmt: skip
STEPS = {
    "{own}": "mkdir -m 700 .spoolctl",
    "{add}": "spoolctl add -- true",
    "{work}": "spoolctl work --drain",
}


def broken(clinic, script):
    for name, line in STEPS.items():
        script = script.replace(name, line)
    clinic.sh(script)


def test_what_was_set_aside_before_is_kept(clinic):
    broken(clinic, "{own}; cd .spoolctl; mkdir config.json; echo '[' >config.json.aside")
    answer = clinic.doctor(first=check(clinic.doctor(), "config_valid")["remediation"])
    assert answer.data["ready"] and statuses(answer)["config_valid"] == "pass"
    assert clinic.sh("cat .spoolctl/config.json.aside; ls -d .spoolctl/*2/")[1] == (
        b"[\n.spoolctl/config.json.aside2/\n"
    )


@pytest.mark.parametrize("name", MENDED)
def test_what_is_broken_is_found_and_its_remediation_mends_it(clinic, name):
    found, status, script = MENDED[name]
    broken(clinic, script)
    answer = clinic.doctor()
    one = check(answer, found)
    assert one["status"] == status, answer
    assert answer.data["ready"] is (status == "warn"), answer
    assert one["remediation"] in answer.commands
    assert "\n" not in one["remediation"]
    if status == "fail":
        assert clinic.usable() is False
        one = check(clinic.doctor(), found)
    mended = clinic.doctor(first=one["remediation"])
    assert statuses(mended)[found] == "pass", mended
    assert mended.data["ready"] is True, mended
    assert clinic.usable() is True


FOREIGN = {
    "a file of words": "echo hello >it; chmod 666 it",
    "an empty file": ": >it; chmod 666 it",
    "another database": '{python} -c \'import sqlite3 as s; s.connect("it").execute("create table t (a)")\'; '
    "chmod 666 it",
    "a device": "ln -s /dev/null it",
}


SOMEBODYS = {
    "a key": ("echo secret >it; chmod 400 it", "it"),
    "another database to read only": (FOREIGN["another database"] + "; chmod 444 it", "it"),
    "a library": ("mkdir lib; echo x >lib/a.py; chmod 555 lib", "lib/x.db"),
    "results": ("mkdir proj; echo x >proj/output", "proj/queue.db"),
    "sources": ("mkdir -p proj/gate proj/wake", "proj/queue.db"),
    "a folder of its own": ("mkdir -p proj/workers; chmod 555 proj/workers", "proj/queue.db"),
    "an empty file to read only": (": >it; chmod 444 it", "it"),
    "a directory with another name in it": ("mkdir other; spoolctl add --db other/jobs.db -- true", "other"),
}


@pytest.mark.parametrize("name", SOMEBODYS)
def test_what_somebody_keeps_there_is_never_changed_either(clinic, name):
    script, path = SOMEBODYS[name]
    clinic.sh(script.replace("{python}", clinic.person.python))
    clinic.words = ["--db", path]
    answer = clinic.doctor()
    assert answer.data["ready"] is False, answer
    lines = [one["remediation"] for one in answer.data["checks"] if one["remediation"]]
    assert not [line for line in lines if line.split()[0] not in ("ls", "spoolctl", "df")], lines
    assert clinic.usable() is False


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_queue_of_ours_is_never_changed(clinic, name):
    """The path may name any file: a chmod of it could break what it is for."""
    clinic.sh(FOREIGN[name].replace("{python}", clinic.person.python))
    clinic.words = ["--db", "it"]
    lines = [one["remediation"] for one in clinic.doctor().data["checks"] if one["remediation"]]
    assert not [line for line in lines if line.split()[0] not in ("ls", "spoolctl", "df")], lines


def test_output_that_may_not_be_read_is_a_warning_that_is_mended(clinic):
    broken(clinic, "{add}; {work}; chmod 0 .spoolctl/output/1/1")
    answer = clinic.doctor("--deep")
    one = check(answer, "output_size")
    assert answer.data["ready"] and one["status"] == "warn"
    assert "one directory of output cannot be read by this user" in one["message"]
    assert clinic.usable()
    assert statuses(clinic.doctor("--deep", first=one["remediation"]))["output_size"] == "pass"


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_remediation_is_about_the_database_that_was_named(clinic, how):
    clinic.sh("mkdir 'a b'")
    if how == "flag":
        clinic.words = ["--db", "a b/q.db"]
    else:
        clinic.env = {"SPOOLCTL_DB": "a b/q.db"}
    named = " --db 'a b/q.db'" if how == "flag" else ""
    answer = clinic.doctor()
    one = check(answer, "database_exists")
    assert (one["status"], one["remediation"]) == ("warn", None), "there is nothing to mend"
    assert answer.data["ready"] is True
    answer = clinic.doctor(first=f"spoolctl add{named} -- true")
    assert statuses(answer)["database_exists"] == "pass"
    assert answer.data["config"]["db_path"] == os.path.realpath(clinic.person.path / "a b" / "q.db")
    assert answer.data["config"]["db_source"] == how
    # Of a directory without a queue the doctor shows what is in it, or names that of the project in it.
    clinic.sh("mkdir other")
    if how == "flag":
        clinic.words = ["--db", "other"]
    else:
        clinic.env = {"SPOOLCTL_DB": "other"}
    one = check(clinic.doctor(), "db_path_resolved")
    assert one["status"] == "fail"
    inner = os.path.realpath(clinic.person.path / "other" / "queue.db")
    assert one["remediation"] == f"ls -la {os.path.dirname(inner)}"
    clinic.sh("cd other; unset SPOOLCTL_DB; spoolctl add -- true")
    inner = os.path.realpath(clinic.person.path / "other" / ".spoolctl" / "queue.db")
    assert check(clinic.doctor(), "db_path_resolved")["remediation"] == f"spoolctl doctor --db {inner}"


@pytest.mark.parametrize("value", ["", "x" * 4097])
def test_a_variable_that_is_no_path_is_found_and_unset(clinic, value):
    clinic.env = {"SPOOLCTL_DB": value}
    answer = clinic.doctor()
    assert answer.data["config"]["db_path"] is None and answer.data["config"]["db_source"] is None
    assert clinic.usable() is False
    one = check(answer, "db_path_resolved")
    assert clinic.doctor(first=one["remediation"]).data["config"]["db_source"] == "default"


def test_a_directory_that_is_gone_is_found_and_left(clinic):
    clinic.before = "mkdir gone; cd gone; rmdir ../gone"
    answer = clinic.doctor()
    assert check(answer, "config_valid")["status"] == "fail"
    assert answer.data["config"] == {
        "config_path": None, "config_exists": False, "config_valid": False, "db_path": None,
        "db_source": None,
    }  # fmt: skip
    assert clinic.usable() is False
    assert clinic.doctor(first="cd").data["ready"] is True
    assert check(answer, "config_valid")["remediation"] == "cd && spoolctl doctor"


# --- what only a person can mend --------------------------------------------------------------------------

STUCK = {
    "text": ("sqlite_open_readwrite", "{add}; echo hello >.spoolctl/queue.db"),
    "one byte": ("sqlite_open_readwrite", "{add}; printf x >.spoolctl/queue.db"),
    "zeros": ("sqlite_open_readwrite", "{add}; head -c 8192 /dev/zero >.spoolctl/queue.db"),
    "a cut file": (
        "sqlite_open_readwrite", "{add}; cd .spoolctl; head -c 20000 queue.db >x; cat x >queue.db",
    ),
    "a directory": ("db_path_resolved", "{own}; mkdir .spoolctl/queue.db"),
    "a config that names it": (
        "config_valid", "{own}; echo '{\"db_path\": \"../q.db\",}' >.spoolctl/config.json",
    ),
    "a config that is no JSON": ("config_valid", "{own}; echo '{' >.spoolctl/config.json"),
    "a pipe for a log": ("database_exists", "{add}; mkfifo .spoolctl/queue.db-journal"),
    "a directory for a log": ("database_exists", "{add}; mkdir .spoolctl/queue.db-wal"),
    "a pipe for an index": ("database_exists", "mkdir -m 700 .spoolctl; mkfifo .spoolctl/queue.db-shm"),
    "a pipe": ("database_exists", "mkdir -m 700 .spoolctl; mkfifo .spoolctl/queue.db"),
    "a second name": ("database_exists", "{add}; ln .spoolctl/queue.db second.db"),
    "a newer schema": ("schema_version", "{sql} 'PRAGMA user_version = 99'"),
    "an unknown schema": ("schema_version", "{sql} 'PRAGMA user_version = -1'"),
    "a missing table": ("schema_version", "{sql} 'DROP TABLE job_events'"),
    "a missing trigger": ("schema_version", "{sql} 'DROP TRIGGER count_insert'"),
    "a stranger's database": ("sqlite_open_readwrite", "{add}; {sql} 'PRAGMA application_id = 77'"),
    "another tool": ("contract_metadata", "{sql} \"UPDATE meta SET value = 'x' WHERE key = 'tool'\""),
    "another contract": ("contract_metadata", "{sql} \"DELETE FROM meta WHERE key = 'contract_version'\""),
}  # fmt: skip
STILL_TAKES_JOBS = {"a missing trigger", "another tool", "another contract"}


@pytest.mark.parametrize("name", STUCK)
def test_what_no_command_can_mend_is_found_and_shown(clinic, name):
    found, script = STUCK[name]
    sql = "import sqlite3, sys; c = sqlite3.connect('.spoolctl/queue.db'); c.execute(sys.argv[1]); c.commit()"
    line = f"spoolctl add -- true; {shlex.join([clinic.person.python, '-c', sql])}"
    broken(clinic, script.replace("{sql}", line))
    answer = clinic.doctor()
    failed = [one for one in answer.data["checks"] if one["status"] == "fail"]
    assert found in [one["id"] for one in failed], answer
    assert answer.data["ready"] is False
    assert failed[0]["remediation"] in answer.commands
    status, out = clinic.sh(check(answer, found)["remediation"], check=False)
    assert status == 0 and out, "it shows something"
    if name == "a second name":
        assert out.count(b".db\n") == 2
        assert "-maxdepth" in check(answer, found)["remediation"], "a whole disk takes long"
    later = [one for one in answer.data["checks"] if one["blocked_by"] == found]
    assert all(one["status"] == "skip" and one["remediation"] is None for one in later)
    assert clinic.usable() is (name in STILL_TAKES_JOBS)


@pytest.mark.parametrize("page", range(1, 24))
def test_ready_is_never_said_of_a_damaged_database_that_takes_no_jobs(spool, page):
    content = bytearray(STORED.read_bytes())
    content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    spool.db.parent.mkdir(mode=0o700)
    spool.db.write_bytes(content)
    spool.db.chmod(0o600)
    ready = spool.json("doctor")["ready"]
    assert spool.db.read_bytes() == content
    assert spool.json("doctor", "--deep")["ready"] <= ready
    if spool.run("add", "--json", "--", "true").exit:
        assert ready is False


def test_a_directory_for_all_that_is_kept_by_its_sticky_bit_stays_so(spool):
    folder = spool.path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    spool.json("add", "--db", "tmp/q.db", "--", "true")
    (folder / "q.db").chmod(0o666)
    one = check(spool.run("doctor", "--json", "--db", "tmp/q.db", check=3), "permissions")
    assert one["remediation"] == f"chmod go-w {folder}/q.db"


def test_a_file_above_the_database_is_found_and_left(clinic):
    clinic.sh("echo x >file")
    clinic.words = ["--db", "file/q.db"]
    one = check(clinic.doctor(), "spool_directory_writable")
    assert one["status"] == "fail" and "mv" not in one["remediation"]
    assert clinic.usable() is False


def test_names_that_are_too_long_are_found(clinic):
    for name in ("x" * 248, "x" * 300, "/".join(["y" * 100] * 6)):
        clinic.words = ["--db", name]
        assert check(clinic.doctor(), "db_path_resolved")["status"] == "fail", name
        assert clinic.usable() is False
    clinic.words = ["--db", "x" * 247]
    assert clinic.doctor().data["ready"] and clinic.usable()


def test_a_file_size_limit_that_is_too_small_is_found_and_lifted(clinic):
    clinic.before = "ulimit -S -f 8"
    one = check(clinic.doctor(), "disk_space")
    assert one["status"] == "fail"
    assert clinic.usable() is False
    assert clinic.doctor(first=one["remediation"]).data["ready"] is True


# --- mounts and strangers ---------------------------------------------------------------------------------


def mounted(clinic, script):
    """Everything from now on runs where this has been mounted; skips where that cannot be done."""
    as_user = f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"'
    line = ["unshare", "--mount", "sh", "-ec", f"{script}; {as_user}", "sh"]
    for tool in ("unshare", "setpriv"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} command")
    tried = subprocess.run([*line, "true"], capture_output=True, cwd=clinic.person.path)
    if tried.returncode:
        pytest.skip(f"cannot mount: {tried.stderr.decode(errors='replace').strip()}")
    clinic.inside = line


MOUNTS = {
    "no room": ("disk_space", "fail", "mount -t tmpfs -o size=12m,mode=777 x box", "df -h "),
    "little room": ("disk_space", "warn", "mount -t tmpfs -o size=100m,mode=777 x box", "df -h "),
    "no files": ("disk_space", "fail", "mount -t tmpfs -o nr_inodes=2,mode=777 x box", "df -i "),
    "hidden processes": ("worker_identity", "warn", "mount -t proc -o hidepid=2 x /proc", None),
    "read only": ("spool_directory_writable", "fail", "mount -t tmpfs -o ro x box", "spoolctl doctor"),
    "a single file": (
        "filesystem_type", "fail", "touch box/queue.db; chown 65534 box/queue.db; "
        "mount --bind .spoolctl/queue.db box/queue.db", "spoolctl doctor",
    ),
}  # fmt: skip


@ROOT_ONLY
@pytest.mark.parametrize("name", MOUNTS)
def test_what_a_mount_does_to_a_queue_is_found(clinic, name):
    found, status, script, shows = MOUNTS[name]
    clinic.sh("mkdir box; spoolctl add -- true")
    mounted(clinic, script)
    clinic.words = ["--db", "box/queue.db" if name == "a single file" else "box/q/queue.db"]
    answer = clinic.doctor()
    one = check(answer, found)
    assert one["status"] == status, answer
    assert one["remediation"] is None if shows is None else one["remediation"].startswith(shows)
    assert answer.data["ready"] is (status == "warn")
    if (found, status) != ("disk_space", "fail"):  # 12 MiB are room for one job
        assert clinic.usable() is answer.data["ready"]


def test_a_remote_file_system_is_found(spool, monkeypatch):
    from spoolctl.store import place

    spool.add()
    device = os.stat(spool.path).st_dev
    monkeypatch.setattr(place, "mounts", lambda: [(device, str(spool.path), "nfs4")])
    answer = spool.run("doctor", "--json", check=3)
    assert check(answer, "filesystem_type")["status"] == "fail"
    assert "nfs4" in check(answer, "filesystem_type")["message"]
    monkeypatch.setattr(place, "mounts", list)
    assert check(spool.run("doctor", "--json", check=0), "filesystem_type")["status"] == "pass"


STRANGE = {
    "the spool": ("db_path_resolved", ".spoolctl"),
    "the database": ("permissions", ".spoolctl/queue.db"),
    "the output": ("permissions", ".spoolctl/output"),
    "the gate": ("permissions", ".spoolctl/gate"),
    "a log": ("database_exists", ".spoolctl/queue.db-wal"),
}


@ROOT_ONLY
@pytest.mark.parametrize("name", STRANGE)
def test_what_belongs_to_a_stranger_is_found(clinic, name):
    found, path = STRANGE[name]
    broken(
        clinic,
        "{add}; {work}; chmod 1777 .spoolctl; : >>.spoolctl/queue.db-wal; chmod 666 .spoolctl/*.db-wal",
    )
    if name == "the spool":
        clinic.sh("chmod 700 .spoolctl")
    os.chown(clinic.person.path / path, STRANGER, STRANGER)
    answer = clinic.doctor()
    assert check(answer, found)["status"] == "fail", answer
    assert clinic.usable() is False
    status, out = clinic.sh(check(answer, found)["remediation"])
    assert out


# --- ids, order, text -------------------------------------------------------------------------------------


def test_the_checks_have_the_names_and_the_order_of_the_contract(spool):
    assert IDS == [
        "config_valid", "db_path_resolved", "spool_directory_writable", "database_exists",
        "sqlite_open_readwrite", "schema_version", "contract_metadata", "sqlite_version", "sqlite_wal_reset",
        "filesystem_type", "permissions", "worker_identity", "wal_size", "disk_space",
    ]  # fmt: skip
    assert [name for name, _, _ in DEEP] == ["quick_check", "counts", "output_size"]
    spool.add()
    data = spool.json("doctor")
    assert [one["id"] for one in data["checks"]] == IDS
    assert data["versions"]["schema_version"] == 1 and "output_bytes" not in data["sizes"]
    assert data["sizes"]["db_bytes"] == spool.db.stat().st_size
    assert sum(data["summary"].values()) == len(IDS)
    data = spool.json("doctor", "--deep")
    assert [one["id"] for one in data["checks"]][len(IDS) :] == ["quick_check", "counts", "output_size"]
    assert data["sizes"]["output_bytes"] == 0


def test_an_empty_flag_is_refused_and_nothing_else(spool):
    assert spool.run("doctor", "--json", "--db", "", check=1).code == "INVALID_INPUT"
    assert spool.run("doctor", "--json", "--depth", check=1).code == "UNKNOWN_FLAG"
    assert spool.files() == []


def test_people_read_marks_and_lines_that_fit(spool):
    (spool.path / ".spoolctl").mkdir(mode=0o700)
    (spool.path / ".spoolctl" / "config.json").write_text('{"version": 1, "colour": "blue"}')
    answer = spool.run("doctor", check=0)
    lines = answer.text.splitlines()
    assert lines[-1].startswith("ready: ")
    assert any(line.startswith("warn  database_exists") for line in lines)
    assert any(line.startswith("      $ spoolctl config-validate ") for line in lines)
    words = [line for line in lines if "/" not in line and not line.startswith("      $")]
    assert max(map(len, words)) <= 80
    assert "\x1b[" not in answer.text and "\x1b[32mpass" in spool.run("doctor", tty=True).text
    assert (
        spool.run("doctor", env={"SPOOLCTL_DB": ""}, check=3).text.splitlines()[-1].startswith("not ready: ")
    )


def test_a_deep_look_counts_rows_and_output(spool, monkeypatch):
    for name in ("PAGES", "ROWS", "FILES"):
        monkeypatch.setattr(deep, name, 60)
    spool.add("-c", "printf 12345; printf 678 >&2")
    spool.work()
    found = spool.json("doctor", "--deep")
    assert found["ready"] and found["sizes"]["output_bytes"] == 8
    change(spool, "UPDATE counts SET n = n + 1 WHERE state = 'done'")
    answer = spool.run("doctor", "--json", "--deep", check=0)
    one = check(answer, "counts")
    assert (one["status"], one["remediation"]) == ("warn", None)
    assert one["message"].startswith("status may tell wrong numbers")
    assert "default done (command): 2 counted, 1 there" in one["message"]
    spool.add()
    assert spool.work().data["executed"] == 1
    assert sys.version_info[:3] == tuple(map(int, answer.data["versions"]["python"].split(".")))
