"""Calls of the tool as a user who is not root, in a directory of that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
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

    def start(self, *words, prefix=(), **popen):
        """The call as a process that goes on. Root puts `prefix` before it, to give it what it needs."""
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        options |= {} if prefix else self.popen()
        return subprocess.Popen(
            [*prefix, self.python, "-m", "spoolctl", *words], cwd=self.path,
            env=clean_env(HOME=str(self.path)), stdin=subprocess.DEVNULL, **options | popen,
        )  # fmt: skip

    def data(self, verb, *words):
        status, answer = self.call(verb, "--json", *words)
        assert answer is not None and answer["ok"], (status, answer)
        return answer["data"]

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


@contextmanager
def plain_user():
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
