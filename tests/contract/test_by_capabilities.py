"""The capabilities against the executable, by a tester that knows nothing else (tests/contract_tester)."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import broken_tool
import pytest
from contract_tester.calls import CATEGORIES, sample
from contract_tester.derive import calls
from contract_tester.examine import examine
from contract_tester.judge import Judge
from contract_tester.runner import Runner, clean_env

HERE = Path(__file__).resolve().parent
TESTER = HERE.parent / "contract_tester"
COMMAND = [sys.executable, "-m", "spoolctl"]
ENV = clean_env(PYTHONPATH=str(HERE.parent.parent))


def test_the_tester_knows_nothing_but_what_the_executable_says():
    modules = sorted(TESTER.glob("*.py"))
    allowed = {*sys.stdlib_module_names, "jsonschema", TESTER.name} - {"importlib", "runpy"}
    assert modules
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            assert {name.partition(".")[0] for name in names} <= allowed, (path.name, names)
            assert not (isinstance(node, ast.Name) and node.id in ("__import__", "exec", "eval")), path.name


@pytest.mark.timeout(600)
def test_the_executable_does_what_its_capabilities_say():
    report = examine(COMMAND, ENV, count=2400, seed=1)
    print(report.table())
    assert len(report.derived) > 5000
    assert {call.category for call in report.run} == set(CATEGORIES)
    assert {call.stratum for call in report.run} == {call.stratum for call in report.derived}
    assert not report.lines(), report.table() + "\n" + "\n".join(report.lines()[:40])


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_executable_does_all_that_its_capabilities_say():
    report = examine(COMMAND, ENV)
    assert not report.lines(), report.table() + "\n" + "\n".join(report.lines()[:40])


# --- the tester itself --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seeded():
    """A runner with a queue, the calls that follow from its contract, and a judge."""
    with Runner(COMMAND, ENV) as runner:
        contract = runner.contract()
        runner.seed()
        yield runner, sample(calls(contract), 2000, 7), Judge(contract)


def text(call):
    return "--json" not in " ".join(call.tokens)


def in_json(call):
    return not text(call)


def is_of(*categories):
    return lambda call: in_json(call) and call.category in categories and call.shell is None


def fed_with(name, value):
    return lambda call: call.env.get(name) == value and call.expected.code is not None


def follows(call):
    return call.category == "valid" and "--follow" in call.tokens and "--db" not in " ".join(call.tokens)


def goes_through(call):
    """Whether it is answered with ok, in one document."""
    sure = call.verb in ("list", "status", "events", "config-show") and "--db" not in " ".join(call.tokens)
    return sure and is_of("valid")(call) and not follows(call)


refused = is_of("boundary", "malformed", "missing", "excluded", "unknown")

# By fault: the calls in which it shows, and on all of them.
SHOWS = {
    "exit_is_one_more": lambda call: call.shell is None,
    "documents_come_twice": goes_through,
    "code_is_another": refused,
    "a_key_is_dropped": goes_through,
    "a_key_is_added": goes_through,
    "hash_is_of_something_else": is_of("valid", "malformed"),
    "ok_in_spite_of_an_error": refused,
    "warning_is_not_declared": goes_through,
    "hint_is_missing": lambda call: in_json(call) and call.expected.near,
    "detail_names_another_flag": lambda call: in_json(call) and call.expected.flags,
    "a_traceback_is_shown": lambda call: call.shell is None,
    "stderr_chatters": is_of("valid", "unknown"),
    "stderr_is_never_silent": fed_with("SPOOLCTL_STDERR", "off"),
    "mirror_is_missing": lambda call: refused(call) and not call.env,
    "errors_of_text_mode_are_on_stdout": lambda call: text(call) and call.category == "malformed",
    "stdout_is_not_ascii": goes_through,
    "unknown_flags_are_accepted": lambda call: (
        call.category == "unknown" and call.expected.code == "UNKNOWN_FLAG"
    ),
    "nothing_is_refused": lambda call: text(call) and call.expected.code not in (None, "NOT_FOUND"),
    "a_line_of_the_stream_is_spoiled": lambda call: in_json(call) and follows(call),
    "help_is_empty": lambda call: call.category == "help",
    "version_is_another": lambda call: call.subject == "--version",
    "something_is_made": refused,
    "someone_is_left_behind": refused,
    "it_hangs": refused,
    "nothing": lambda call: call.shell is None,
}


@pytest.mark.parametrize("fault", sorted(broken_tool.FAULTS))
def test_whatever_is_wrong_with_an_executable_is_found(seeded, monkeypatch, fault):
    runner, derived, judge = seeded
    # A line for the shell finds the sound tool on its PATH.
    shown = [call for call in derived if not call.shell and SHOWS[fault](call)]
    some = random.Random(fault).sample(shown, min(len(shown), 2 if fault == "it_hangs" else 8))
    assert some
    monkeypatch.setattr(runner, "command", [sys.executable, broken_tool.__file__, fault])
    monkeypatch.setattr(runner, "limit", 1 if fault == "it_hangs" else 60)
    monkeypatch.setattr(runner, "patience", 0.1 if fault == "someone_is_left_behind" else 5)
    missed = [call.pasted("spoolctl") for call, found in runner.all(some, judge.findings) if not found]
    if fault == "nothing":
        assert len(missed) == len(some)
    else:
        assert not missed
