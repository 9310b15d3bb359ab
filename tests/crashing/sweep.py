"""Every step of a call, and the call killed there.

Two ways to say where. System calls: strace kills the traced process on entering the n-th call of a name,
which is then not made (KILL), or on leaving it, before another instruction runs (USR1, which nothing
here handles). Only the process itself is traced and killed, never what it starts. Hooks: the process
kills itself at the n-th named point of spoolctl/hooks.py, wherever there is no strace.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from support import clean_env, document

from .case import MAIN, Case, Scenario
from .sound import settled, sound

# A leading ? passes over what a machine or a strace does not know.
WRITING = ",".join(
    f"?{name}"
    for name in (
        "open openat creat write writev pwrite64 pwritev pwritev2 fdatasync fsync sync_file_range ftruncate"
        " truncate fallocate rename renameat renameat2 unlink unlinkat rmdir mkdir mkdirat link linkat"
        " symlink symlinkat chmod fchmod fchmodat chown fchown fchownat utime utimes utimensat futimesat"
        " flock fcntl"
    ).split()
)
# What two of these names say is often only read or asked.
MEANT = {"open": "O_CREAT", "openat": "O_CREAT", "fcntl": "F_(OFD_)?SETLK"}
BEFORE, AFTER = "before", "after"
KILLS = {BEFORE: signal.SIGKILL, AFTER: signal.SIGUSR1}

# Tells the names of the points it passes, or dies at the one of a number.
HOOKED = """
import os, signal, sys
from spoolctl import hooks
number, told = int(sys.argv.pop(1)), sys.argv.pop(1)
class Every(dict):
    passed = 0
    def __contains__(self, name):
        Every.passed += 1
        if not number:
            with open(told, "a") as lines:
                lines.write(name + "\\n")
        elif Every.passed == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return False
hooks.AT = Every(on=None)
"""


class Point:
    """Where a call is killed: the `number`-th system call of a name, or the `number`-th hook passed."""

    def __init__(self, name: str, number: int, how: str, text: str = "") -> None:
        self.name = name
        self.number = number
        self.how = how
        self.text = text

    def __repr__(self) -> str:
        return f"{self.how} {self.name} {self.number} {self.text}".strip()


@cache
def no_strace() -> str:
    """Why strace cannot be used here, empty when it can."""
    script = "import os; os.getppid()"
    line = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=getppid", "-e", "inject=getppid:signal=KILL"]
    try:
        done = subprocess.run([*line, sys.executable, "-c", script], capture_output=True, timeout=20)
    except FileNotFoundError:
        return "there is no strace"
    if done.returncode == -signal.SIGKILL:
        return ""
    return f"strace cannot kill: {done.stderr.decode(errors='replace').strip()[:200]}"


def injecting(point: Point) -> list[str]:
    """What is put before a command to have it killed at a system call."""
    inject = f"inject={point.name}:signal={KILLS[point.how].name[3:]}:when={point.number}"
    return ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={point.name}", "-e", inject]


class Sweep:
    """Kills the call of a scenario again and again, some at a time."""

    def __init__(self, scenario: Scenario, base: Path) -> None:
        self.scenario = scenario
        self.base = base
        self.template = Case(base / "template", scenario)
        self.template.folder.mkdir()
        scenario.arrange(self.template)
        self.killed = 0
        self.failures: list[str] = []

    # --- one call

    def _copy(self, name: str) -> Case:
        case = Case(self.base / name, self.scenario)
        shutil.copytree(self.template.folder, case.folder)
        self.scenario.ready(case)
        return case

    def _run(self, case: Case, before: list[str], extra: str = "", told: tuple[str, ...] = ()) -> int:
        """Run the scenario's call behind `before`; its answer goes to a file, so that nothing it started
        keeps us waiting."""
        verb, *rest = self.scenario.words
        out = Path(f"{case.folder}.out")
        env = clean_env(PYTHONDONTWRITEBYTECODE="1")
        with open(out, "wb") as sink:
            done = subprocess.run(
                [*before, sys.executable, "-c", extra + self.scenario.prelude + MAIN, *told,
                 verb, "--json", "--db", f"{self.scenario.place}/queue.db", *rest],
                cwd=case.folder, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.DEVNULL,
                timeout=60, start_new_session=True,
            )  # fmt: skip
        said = out.read_bytes()
        out.unlink()
        if said:
            answer = document(said, verb, *rest, status=max(done.returncode, 0))
            assert answer["ok"], said
            case.answer = answer["data"]
        return done.returncode

    def syscalls(self, how: str) -> list[Point]:
        """Every write-type system call of an undisturbed run."""
        self._run(self._copy(f"warm-{how}"), [])  # what is compiled once is compiled now
        # One that had to look again and again, because the machine was slow, would hide what matters.
        tries = [self._counted(f"{how}-{n}", how) for n in range(1 if self.scenario.steady else 2)]
        return min(tries, key=len)

    def _counted(self, name: str, how: str) -> list[Point]:
        case, trace = self._copy(f"counted-{name}"), self.base / f"trace-{name}"
        with attached(case, how):
            line = ["strace", "-qq", "-s", "64", "-o", str(trace), "-e", f"trace={WRITING}"]
            status = self._run(case, line)
        assert (status, case.answer is None) == (0, False), "the undisturbed call fails"
        case.close()
        seen: dict[str, int] = {}
        found = []
        for line in trace.read_text(errors="replace").splitlines():
            name, _, rest = line.partition("(")
            if not name.isidentifier():
                continue  # a signal
            seen[name] = seen.get(name, 0) + 1
            if re.search(MEANT.get(name, ""), rest):
                found.append(Point(name, seen[name], how, rest[:100]))
        return found

    def hooks(self) -> list[Point]:
        """Every named point that an undisturbed run passes."""
        case, told = self._copy("counted"), self.base / "told"
        assert self._run(case, [], HOOKED, ("0", str(told))) == 0
        case.close()
        return [Point(name, n, "at") for n, name in enumerate(told.read_text().splitlines(), 1)]

    def _kill(self, case: Case, point: Point) -> None:
        if point.how == "at":
            status = self._run(case, [], HOOKED, (str(point.number), "-"))
            case.killed = status == -signal.SIGKILL
        else:
            status = self._run(case, injecting(point))
            case.killed = status == -KILLS[point.how]
        assert case.killed or status == 0, f"ended with {status}"

    # --- all of them

    def all(self, points: Iterable[Point]) -> None:
        """Try every point; collects what went wrong in `failures`."""
        with ThreadPoolExecutor(4) as pool:
            self.killed = sum(pool.map(self._try, points))

    def _try(self, point: Point) -> bool:
        """Whether the call was killed there."""
        case = None
        try:
            case = self._copy(f"{point.name.replace(' ', '-')}-{point.number}-{point.how}")
            self._one(case, point)
            shutil.rmtree(case.folder)
        except Exception as wrong:  # the others are tried all the same
            where = traceback.extract_tb(wrong.__traceback__)[-1]
            said = f"{type(wrong).__name__}: {wrong}".removesuffix(": ")
            self.failures.append(f"{point}: {said} ({where.line}, {where.filename}:{where.lineno})")
        finally:
            if case is not None:
                case.close()
        return case is not None and case.killed

    def _one(self, case: Case, point: Point) -> None:
        with attached(case, point.how):
            self._kill(case, point)
            if case.db.exists() and case.db.stat().st_size:
                sound(case)
            self.scenario.check(case)
            case.age()
            case.process("work", "--drain")
            sound(case)
            settled(case)
            self.scenario.settle(case)


@contextmanager
def attached(case: Case, how: str) -> Iterator[None]:
    """Before a system call nobody else has the database; after it, another connection is attached: what
    the killed process left in shared memory is then used as it is, and nobody's close is the last."""
    if how != AFTER or not case.db.exists():
        yield
        return
    with closing(sqlite3.connect(case.db, timeout=20)) as held:
        held.execute("SELECT count(*) FROM jobs").fetchone()
        yield


SYNCS = ("fdatasync", "fsync")


def chosen(points: list[Point], most: int, seed: int) -> list[Point]:
    """Of many points `most`, or a few more: the first and the last of each name, those beside an fsync
    (every COMMIT is there), and of the others a seeded choice."""
    kept = {n for n, one in enumerate(points) for m in (n - 1, n, n + 1)
            if 0 <= m < len(points) and points[m].name in SYNCS}  # fmt: skip
    for name in {one.name for one in points}:
        places = [n for n, one in enumerate(points) if one.name == name]
        kept |= {places[0], places[-1]}
    others = [n for n in range(len(points)) if n not in kept]
    random.Random(seed).shuffle(others)
    kept |= set(others[: max(0, most - len(kept))])
    return [points[n] for n in sorted(kept)]
