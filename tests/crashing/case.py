"""One killed call in a directory of its own, and what kinds of calls there are to kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import support
from support import Answer, clean_env, processes_of

MAIN = "from spoolctl.__main__ import main\nmain()\n"


class Case:
    """One killed call in a directory of its own. `answer`: the data it had printed, None if nothing."""

    def __init__(self, folder: Path, scenario: Scenario | None = None) -> None:
        self.folder = folder
        self.prelude = scenario.prelude if scenario else ""
        self.db = folder / (scenario.place if scenario else ".spoolctl") / "queue.db"
        self.killed = False
        self.answer: Any = None

    def call(self, *tokens: str) -> Answer:
        """A call in this process: the verb first, then what follows `--json --db`."""
        return support.run(tokens[0], "--json", "--db", str(self.db), *tokens[1:])

    def process(self, *tokens: str) -> Answer:
        """A call as a real process, with the same changes to the program as the killed one."""
        words = [tokens[0], "--json", "--db", str(self.db), *tokens[1:]]
        done = subprocess.run(
            [sys.executable, "-c", self.prelude + MAIN, *words],
            cwd=self.folder, env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        )  # fmt: skip
        return support.checked(Answer(words, done.returncode, done.stdout, done.stderr), {}, 0)

    def add(self, *tokens: str) -> int:
        return int(self.call("add", "--cwd", "/", "--backoff-base", "0.01", *tokens).data["job_id"])

    def hooked(self, point: str, *tokens: str) -> None:
        """A real worker that kills itself at the first pass of a named point."""
        script = (
            f"import os\nfrom spoolctl import hooks\nhooks.AT[{point!r}] = lambda: os.kill(os.getpid(), 9)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script + MAIN, *tokens], cwd=self.folder, env=clean_env(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
            start_new_session=True,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.returncode

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.db, timeout=20)) as db:
            return db.execute(sql, values).fetchall()

    def states(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, state FROM jobs"))

    def log(self, job_id: int) -> list[str]:
        """What a job of `alone` wrote down."""
        path = self.db.parent.parent / f"log-{job_id}"
        return path.read_text().split() if path.exists() else []

    def age(self) -> None:
        """Make what workers left old enough to be swept up: young files may still get their row."""
        folder = self.db.parent / "workers"
        for path in folder.iterdir() if folder.exists() else ():
            os.utime(path, (0, 0))

    def close(self) -> None:
        for pid, _ in processes_of(self.folder, self.db):
            support.signal_quietly(pid, signal.SIGKILL)


def alone(script: str = "") -> str:
    """A command line whose every process holds a lock of the job's own: who runs beside another says so."""
    return (
        'cd "${SPOOLCTL_JOB_DB%/*}/.." && exec 9>>alone-$SPOOLCTL_JOB_ID; '
        "flock -n 9 || { echo overlap >>log-$SPOOLCTL_JOB_ID; exit 0; }; "
        f"echo start >>log-$SPOOLCTL_JOB_ID; echo out; {script}"
    )


class Scenario:
    """A call to be killed. `arrange` makes the directory once, it is copied for each kill; `ready` is
    done to each copy. `check` judges what the kill left, `settle` what a new worker made of it."""

    words: tuple[str, ...] = ()
    place = ".spoolctl"
    points: tuple[str, ...] = ()  # hooks that it must pass
    steady = True  # whether it takes the same steps each time
    prelude = ""  # changes to the program: what it is run with, and every process of its cases

    def arrange(self, case: Case) -> None:
        pass

    def ready(self, case: Case) -> None:
        pass

    def check(self, case: Case) -> None:
        pass

    def settle(self, case: Case) -> None:
        pass
