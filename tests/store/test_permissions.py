"""SPEC 2.2 and 7: queues and directories that a plain user may not read, write or enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import clean_env, strict_json

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
