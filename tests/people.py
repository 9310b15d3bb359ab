"""Users who are not root, with a readable copy of the package (the fixtures `person` and `stranger`). Without
root, `person` is the user who runs the tests.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from support import ROOT, Answer, checked, clean_env, processes_of, signal_quietly, wait_until

NOBODY = 65_534
STRANGER = 61_235  # anybody else


def _interpreters():
    names = [sys.executable, *(f"python3.{n}" for n in range(13, 9, -1)), "python3"]
    for name in names:
        path = shutil.which(name)
        if path:
            yield path
    for folder in ("/usr/bin", "/usr/local/bin"):
        for name in names[1:]:
            if os.access(f"{folder}/{name}", os.X_OK):
                yield f"{folder}/{name}"


def _as(uid):
    return {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}


@cache
def _readable() -> tuple[str, str] | None:
    """(an interpreter that anybody may run, where it finds the package); None when there is none."""
    found = str(ROOT)
    if os.geteuid() == 0:
        found = tempfile.mkdtemp(prefix="readable-")
        atexit.register(shutil.rmtree, found, ignore_errors=True)
        os.chmod(found, 0o755)
        shutil.copytree(ROOT / "spoolctl", f"{found}/spoolctl", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chmod", "-R", "a+rX", found], check=True)
    look = "import sys, sqlite3, spoolctl; sys.exit(sys.version_info < (3, 10))"
    for python in _interpreters():
        try:
            done = subprocess.run(
                [python, "-c", look], cwd="/", env=clean_env(PYTHONPATH=found), capture_output=True,
                timeout=60, **_as(NOBODY),
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            if os.geteuid() == 0:  # the user cannot keep what is compiled
                subprocess.run([python, "-m", "compileall", "-q", found], check=True)
            return python, found
    return None


class Person:
    """Calls as one user, in one directory."""

    def __init__(self, uid: int, path: Path) -> None:
        found = _readable()
        if found is None:
            pytest.skip("no Python 3.10 that a plain user may run")
        self.python, self._package = found
        self.uid = uid if os.geteuid() == 0 else os.geteuid()
        self.path = path
        self.db = path / ".spoolctl" / "queue.db"
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def env(self) -> dict[str, str]:
        return clean_env(HOME=str(self.path), PYTHONPATH=self._package)

    def _options(self, **more):
        return {"cwd": self.path, "env": self.env, **_as(self.uid)} | more

    def shell(self, script, **options):
        """A shell command as this user: (status, what it printed)."""
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, timeout=60, **self._options(**options)
        )
        return done.returncode, done.stdout

    def run(self, *words, **options):
        """(status, the envelope) of a call; `--json` is added after the verb."""
        words = [words[0], "--json", *words[1:]]
        options = self._options(**options)
        line = [self.python, "-m", "spoolctl", *words]
        done = subprocess.run(line, capture_output=True, timeout=60, **options)
        answer = checked(Answer(words, done.returncode, done.stdout, done.stderr), options["env"])
        return answer.exit, answer.json

    def json(self, *words, **options):
        status, answer = self.run(*words, **options)
        assert answer["ok"], answer
        return answer["data"]

    def code(self, *words, **options):
        """The error's code, None for a success."""
        status, answer = self.run(*words, **options)
        assert (status in (0, 6)) is answer["ok"], answer
        return None if answer["ok"] else answer["errors"][0]["code"]

    def warnings(self, *words, **options):
        _, answer = self.run(*words, **options)
        assert answer["ok"], answer
        return [one["code"] for one in answer["warnings"]]

    def add(self, *words):
        return self.json("add", *(words or ("--", "true")))["job_id"]

    def start(self, *words, prefix=(), **options):
        """The call as a process that goes on. A `prefix` is run by whoever runs the tests, and has to become
        this user itself: so root gives the call what it needs.
        """
        if prefix:
            options = {"user": None, "group": None, "extra_groups": None} | options
        process = subprocess.Popen(
            [*prefix, self.python, "-m", "spoolctl", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            **self._options(**options),
        )  # fmt: skip
        self._started.append(process)
        return process

    def show(self, job_id):
        return self.json("show", str(job_id))

    def wait_for(self, job_id, *states):
        wait_until(lambda: self.show(job_id)["job"]["state"] in states, 30, f"{job_id} to be {states}")

    def leader(self, job_id):
        """Wait until the job runs; its leader's pid."""
        return wait_until(lambda: (all_ := self.show(job_id)["attempts"]) and all_[-1]["pid"], 30)

    def output(self, job_id):
        return self.json("output", str(job_id))["streams"]["stdout"]["preview"]

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        left = processes_of(self.path, self.db)
        for pid, _ in left:
            signal_quietly(pid, signal.SIGKILL)
        assert not left, f"processes were left behind: {left}"


@contextmanager
def person():
    """Somebody with a directory of their own."""
    folder = tempfile.mkdtemp()  # not pytest's: those are closed to others
    try:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        one = Person(NOBODY, Path(folder))
        try:
            yield one
        finally:
            one.close()
    finally:
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o700)
        shutil.rmtree(folder)


def stranger(person: Person) -> Person:
    """Another one, who may enter the first one's directory and finds the first one's queue."""
    if os.geteuid() != 0:
        pytest.skip("only root can call as another user")
    person.path.chmod(0o755)
    other = Person(STRANGER, person.path)
    other.db = person.db
    return other
