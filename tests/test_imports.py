"""What each verb loads, because every call is a Python process and each module shows in its start-up time.

A set of modules is the same on every run, a time is not. Counted is what a call loads beyond the bare start
of the same interpreter. What the database loads by itself is allowed to every verb: `_sqlite3`, and
functools, which it loads itself from Python 3.11 on.

`python tests/test_imports.py [CASE...]` prints what each case loads here beyond EVERY_CALL and HASH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- the tables -------------------------------------------------------------------------------------------

ADD = ["add", "--json", "--", "true"]
WORK = ["work", "--once", "--json"]

# name: (calls that prepare the directory, the call that is looked at)
CASES = {
    "add": ([ADD], ADD),
    "add, first open": ([], ADD),
    "work": ([ADD, WORK], WORK),
    "wait": ([ADD, WORK], ["wait", "--json", "1"]),
    "status": ([ADD], ["status", "--json"]),
    "list": ([ADD], ["list", "--json"]),
    "show": ([ADD], ["show", "--json", "1"]),
    "feedback": ([ADD, WORK], ["feedback", "--json", "1"]),
    "output": ([ADD, WORK], ["output", "--json", "1"]),
    "events": ([ADD], ["events", "--json"]),
    "retry": ([ADD, ["cancel", "--json", "1"]], ["retry", "--json", "1"]),
    "cancel": ([ADD], ["cancel", "--json", "1"]),
    "prune": ([ADD, WORK], ["prune", "--json", "--older-than", "1h", "--dry-run"]),
    "config-show": ([], ["config-show", "--json"]),
    "config-validate": ([], ["config-validate", "--json"]),
    "brief": ([], ["brief", "--json"]),
    "robot-docs": ([], ["robot-docs", "--json", "guide"]),
    "capabilities": ([], ["capabilities", "--json"]),
    "schema": ([], ["schema", "--json"]),
    "completion": ([], ["completion", "--json", "bash"]),
    "completion, words": ([ADD], ["completion", "--json", "--words", "jobs"]),
    "doctor": ([ADD], ["doctor", "--json"]),
}

HEAVY = words(
    "re json argparse dataclasses enum typing subprocess pathlib logging threading tempfile shutil uuid"
    " inspect contextlib hashlib signal selectors random traceback importlib.metadata sqlite3 datetime"
)

# Never loaded, whatever the tables below say; a name covers what lies under it.
NEVER = {
    "add": HEAVY,
    "add, first open": HEAVY,
    "retry": HEAVY,
    "cancel": HEAVY,
    "status": HEAVY,
    "wait": HEAVY,
    "events": HEAVY,
    "feedback": HEAVY,
    "output": HEAVY,
    "completion": HEAVY,
}

# All that a case may load, on any supported Python. First our own modules, as they are named below spoolctl.
EVERY_CALL = words(
    "__main__ argv cli clock config context emit errors jsontext paths registry verbs contract"
    " contract.env contract.limits contract.names contract.spec contract.states contract.times"
    " contract.types contract.numbers contract.values"
)
WITH_DATABASE = EVERY_CALL | words("hooks store store.db store.ddl store.file store.gate store.open")
JOBS = WITH_DATABASE | words("store.events store.jobs")
NAMED_JOBS = JOBS | words("contract.shared store.select")
LIVENESS = words("store.workers work work.identity work.linux work.proc work.serving")
# What tells of every verb loads every verb, but nothing that reads a queue or runs a job.
DESCRIBING = (
    EVERY_CALL
    | {"health"}
    | {
        ".".join(path.relative_to(ROOT / "spoolctl").with_suffix("").parts).removesuffix(".__init__")
        for folder in ("contract", "describe", "verbs")
        for path in (ROOT / "spoolctl" / folder).rglob("*.py")
    }
)
ADDING = JOBS | LIVENESS | words("contract.addflags store.place verbs._adding verbs._job verbs.add")
OWN = {
    "add": ADDING,
    "add, first open": ADDING | words("store.faults store.make store.migrate watch"),
    "work": JOBS
    | words("contract.backoff verbs._progress verbs.work store.checkpoint store.claim store.control")
    | words("store.faults store.owners store.place store.settle store.workers work work.capture work.care")
    | words(
        "work.ending work.house work.identity work.leaving work.loop work.linux work.membership"
        " work.probe work.proc"
    )
    | words(
        "work.census work.scene work.reap work.shift work.signals work.stops work.tally work.tree work.turn"
    ),
    "wait": NAMED_JOBS | words("store.awaited verbs._progress verbs.wait"),
    "status": JOBS | LIVENESS | words("store.attempts store.claim store.counts verbs.status"),
    "list": NAMED_JOBS | words("store.filter store.listing verbs.list"),
    "show": NAMED_JOBS | words("store.attempts verbs.show"),
    "feedback": NAMED_JOBS | LIVENESS | words("store.attempts verbs._tails verbs.feedback work.preview"),
    "output": NAMED_JOBS | words("store.attempts verbs.output work work.preview"),
    "events": WITH_DATABASE | words("contract.shared store.events verbs._ledger verbs.events"),
    "retry": NAMED_JOBS | words("store.control verbs._change verbs.retry"),
    "cancel": NAMED_JOBS | words("store.control verbs._change verbs.cancel"),
    "prune": WITH_DATABASE
    | words("contract.shared store.checkpoint store.filter store.pace store.prune verbs.prune"),
    "config-show": EVERY_CALL | words("verbs.config_show"),
    "config-validate": EVERY_CALL | words("verbs.config_validate"),
    "brief": DESCRIBING,
    "robot-docs": DESCRIBING,
    "capabilities": DESCRIBING,
    "schema": DESCRIBING,
    "completion": DESCRIBING | words("terminal"),
    "completion, words": NAMED_JOBS | words("terminal store.filter store.words verbs.completion"),
    "doctor": WITH_DATABASE
    | LIVENESS
    | words("health health.bound health.database health.deep health.machine health.place health.runner")
    | words("store.health store.owners store.place terminal verbs.doctor"),
}

# Then the others, by their first names; a Python has one of the two hashes.
HASH = words("_json _sha2 _sha256")
USUAL = HASH | words("fcntl")
READS_JSON = USUAL | words(
    "_functools _locale _sre copyreg enum functools json re sre_compile sre_constants sre_parse types"
)
DATES = words("datetime _datetime math _operator operator")
STANDARD = {
    "add": USUAL,
    "add, first open": USUAL | words("errno"),
    "work": USUAL | words("enum errno gc math select signal types"),
    "wait": USUAL,
    "status": USUAL,
    "list": READS_JSON,
    "show": READS_JSON,
    "feedback": USUAL,
    "output": USUAL,
    "events": USUAL,
    "retry": USUAL,
    "cancel": USUAL,
    "prune": USUAL,
    "config-show": HASH,
    "config-validate": HASH,
    "brief": HASH,
    "robot-docs": HASH,
    "capabilities": HASH | DATES,
    "schema": HASH,
    "completion": USUAL,
    "completion, words": READS_JSON,
    "doctor": USUAL
    | DATES
    | words("_functools _weakrefset collections functools resource sqlite3 threading types warnings"),
}


# --- the probe --------------------------------------------------------------------------------------------

# Runs the entry point as the installed command does, and reports what is loaded at the moment it leaves,
# also when it leaves by os._exit. It imports nothing that a bare start has not.
PROBE = """
import sys, site, os
report, root = sys.argv.pop(1), sys.argv.pop(1)
def dump():
    names = "\\n".join(sorted(name for name, module in sys.modules.items() if module is not None))
    fd = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, names.encode())
    os.close(fd)
def leave(status, real=os._exit, owner=os.getpid()):
    if os.getpid() == owner:
        dump()
    real(status)
os._exit = leave
sys.path.insert(0, root)
try:
    BODY
finally:
    dump()
"""
ENTRY = "from spoolctl.__main__ import main; sys.exit(main())"


def probe(
    body: str, argv: list[str], root: Path, cwd: Path
) -> tuple[subprocess.CompletedProcess[bytes], set[str]]:
    """Run `body` in a fresh interpreter and return its end and the names in its sys.modules.

    -I and -S keep the environment, .pth files and sitecustomize of this machine out of the picture.
    """
    report = cwd / "loaded-modules"
    command = [sys.executable, "-I", "-S", "-c", PROBE.replace("BODY", body), str(report), str(root), *argv]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    loaded = set(report.read_text().split("\n"))
    report.unlink()
    return done, loaded


@cache
def free() -> frozenset[str]:
    """Modules that cost a call nothing: those of a bare start, and those of the database itself."""
    with tempfile.TemporaryDirectory() as scratch:
        done, loaded = probe("import _sqlite3, functools", [], ROOT, Path(scratch))
    assert done.returncode == 0, done.stderr
    return frozenset(loaded)


def loaded_by(case: str, cwd: Path, root: Path = ROOT) -> tuple[set[str], set[str]]:
    """(own modules, other modules that are not free) loaded by a case, all by their full names."""
    preparation, argv = CASES[case]
    (cwd / ".spoolctl").mkdir(mode=0o700)  # or one in a directory above would be found
    for call in preparation:
        succeed(call, root, cwd)
    loaded = succeed(argv, root, cwd)
    own = {name for name in loaded if name.partition(".")[0] == "spoolctl"}
    return own, loaded - own - free()


def succeed(argv: list[str], root: Path, cwd: Path) -> set[str]:
    from support import Answer, checked

    done, loaded = probe(ENTRY, argv, root, cwd)
    checked(Answer(argv, done.returncode, done.stdout, done.stderr), {}, check=0)
    return loaded


def below(names: set[str]) -> set[str]:
    """Our modules as the tables name them."""
    return {name.partition(".")[2] for name in names} - {""}


def first_names(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def problems(case: str, own: set[str], other: set[str]) -> list[str]:
    found = []
    for banned in sorted(NEVER.get(case, ())):
        if any(name == banned or name.startswith(banned + ".") for name in other):
            found.append(f"{case} loads {banned}, which it must never do")
    found += [f"{case} loads {name}, which OWN does not list" for name in sorted(below(own) - OWN[case])]
    extra = sorted(first_names(other) - STANDARD[case])
    return found + [f"{case} loads {name}, which STANDARD does not list" for name in extra]


# --- the tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_verb_loads_only_what_its_tables_allow(case, tmp_path):
    found = problems(case, *loaded_by(case, tmp_path))
    assert not found, "\n".join(["", *found])


def test_every_verb_has_a_case():
    from spoolctl import registry

    covered = {argv[0] for _, argv in CASES.values()}
    assert covered == set(registry.VERBS)


def test_the_tables_name_only_cases():
    assert set(NEVER) <= set(CASES) and set(OWN) == set(STANDARD) == set(CASES)


def test_the_database_itself_loads_nothing_that_add_must_not():
    assert not first_names(set(free())) & HEAVY


def fake_package(root: Path, main: str) -> None:
    package = root / "spoolctl"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "extra.py").write_text("")
    (package / "__main__.py").write_text(main)


@pytest.mark.parametrize("leaving", ["os._exit(0)", "return 0", "sys.exit(0)"])
def test_the_probe_sees_lazy_imports_however_the_call_leaves(leaving, tmp_path, monkeypatch):
    from support import run

    answer = f"os.write(1, {run('config-show', '--json', cwd=tmp_path).out!r})"
    lazy = "import json.decoder, colorsys; from . import extra"
    fake_package(tmp_path, f"import os, sys\ndef main():\n    {lazy}\n    {answer}\n    {leaving}\n")
    own, other = loaded_by("config-show", tmp_path, tmp_path)
    assert own == {"spoolctl", "spoolctl.__main__", "spoolctl.extra"}
    assert {"json", "json.decoder", "re", "colorsys"} <= other
    assert not {"os", "sys", "site", "sqlite3", "datetime"} & other

    monkeypatch.setitem(NEVER, "config-show", frozenset({"json"}))
    monkeypatch.setitem(OWN, "config-show", frozenset({"__main__"}))
    monkeypatch.setitem(STANDARD, "config-show", frozenset(first_names(other) - {"colorsys"}))
    assert problems("config-show", own, other) == [
        "config-show loads json, which it must never do",
        "config-show loads extra, which OWN does not list",
        "config-show loads colorsys, which STANDARD does not list",
    ]


def test_a_call_that_fails_is_no_measurement(tmp_path):
    fake_package(tmp_path, "def main():\n    raise RuntimeError('broken')\n")
    with pytest.raises(AssertionError, match="broken"):
        loaded_by("config-show", tmp_path, tmp_path)


def show(cases: list[str]) -> None:
    for case in cases or CASES:
        with tempfile.TemporaryDirectory() as scratch:
            own, other = loaded_by(case, Path(scratch))
        print(f"{case}:")
        print(f"    OWN {' '.join(sorted(below(own) - EVERY_CALL))}")
        print(f"    STANDARD {' '.join(sorted(first_names(other) - HASH))}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    show(sys.argv[1:])
