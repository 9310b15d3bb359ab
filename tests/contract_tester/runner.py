"""Real processes: the documents of an executable, a seeded queue, many calls at once, each in its own place.

A call runs in a fresh copy of the seeded directory, or, when it must be refused, in an empty one, which has
to stay so; it is ended with its whole group when its time is over. Nothing is left behind.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from .calls import Call
from .contract import Contract
from .judge import Answer

THREADS = 4

# The queue that calls meet: ids from 1, in several states, with a key, tags, output and a lane.
SEED = (
    "add --key nightly -- sh -c 'echo out; echo err >&2'",
    "add --max-retries 0 --tag run=42 -- sh -c 'echo bad; exit 3'",
    "work --drain",
    "add --tag a=b -- true",
    "add -- true",
    "cancel 4",
    "add --after 1h --key nightly --queue builds -- true",
    "add -- true",
    "add --queue other --max-retries 0 -- sh -c 'echo bad >&2; exit 1'",
    "work --drain --queue other",
)
FILES = {"jobs.txt": "true\n# a comment\nexit 0\n"}


class Runner:
    """Calls `command`, a list of words; use it as a context, which owns the scratch directory."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.command = command
        self.env = env
        self.limit = 60.0  # seconds for a call
        self.patience = 5.0  # seconds for the rest of its process group
        self.numbers = count()

    def __enter__(self) -> Runner:
        self.scratch = Path(tempfile.mkdtemp(prefix="contract-"))
        self.seeded = self.scratch / "seeded"
        shims = self.scratch / "bin"
        for folder in (self.seeded, shims):
            folder.mkdir(mode=0o700)
        self.shims = shims
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    def document(self, *words: str) -> dict[str, Any]:
        """The data of an answer that must be in order."""
        answer = self._answer([*self.command, *words, "--json"], self.seeded)
        if answer.exit != 0:
            raise RuntimeError(f"{words}: exit {answer.exit}: {answer.err!r}")
        found: dict[str, Any] = json.loads(answer.out)["data"]
        return found

    def contract(self) -> Contract:
        contract = Contract(self.document("capabilities"), self.document("schema"))
        self.limit = max(verb.doc["probe_hints"]["timeout_seconds"] for verb in contract.verbs.values())
        shim = self.shims / contract.tool
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n')
        shim.chmod(0o700)
        return contract

    def seed(self) -> None:
        """The queue as SEED makes it, through the executable itself."""
        for name, text in FILES.items():
            (self.seeded / name).write_text(text)
        for line in SEED:
            answer = self._answer([*self.command, *shlex.split(line)], self.seeded)
            if answer.exit != 0:
                raise RuntimeError(f"{line}: exit {answer.exit}: {answer.err!r}")

    def all(
        self, calls: list[Call], judge: Callable[[Call, Answer], list[str]]
    ) -> list[tuple[Call, list[str]]]:
        """Every call with its findings, in order."""

        def one(call: Call) -> tuple[Call, list[str]]:
            return call, judge(call, self.call(call))

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(one, calls))

    def call(self, call: Call) -> Answer:
        place = self.scratch / f"call-{next(self.numbers)}"
        if call.alone:
            place.mkdir(mode=0o700)
        else:
            shutil.copytree(self.seeded, place, symlinks=True)
        line = [*self.command, *call.tokens] if call.shell is None else ["sh", "-c", call.shell]
        try:
            answer = self._answer(line, place, call.stdin, call.env)
            if call.alone:
                answer.touched = sorted(os.listdir(place))
            return answer
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _answer(
        self, line: list[str], place: Path, stdin: str | None = None, more: dict[str, str] | None = None
    ) -> Answer:
        path = os.pathsep.join([str(self.shims), self.env.get("PATH", os.defpath)])
        env = {**self.env, "PATH": path, **(more or {})}
        process = subprocess.Popen(
            line, cwd=place, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=self.limit)
            answer = Answer(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            _end_group(process.pid, 0)
            out, err = process.communicate()
            answer = Answer(None, out, err)
        answer.left = _end_group(process.pid, self.patience)
        return answer


def _end_group(pid: int, patience: float) -> bool:
    """End what is left of the process group; whether anything was there that did not go by itself."""
    until = time.monotonic() + patience
    try:
        os.killpg(pid, 0)
        while time.monotonic() < until:
            time.sleep(0.05)
            os.killpg(pid, 0)
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # the latter of a group of zombies, on macOS
        return False
    return True


def clean_env(**more: str) -> dict[str, str]:
    """The surroundings of a call: those of this process without what the tool reads from them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPOOLCTL_")}
    for name in ("NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
        kept.pop(name, None)
    return {**kept, **more}
