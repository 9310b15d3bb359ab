"""Every flag and argument of every verb, fed with the boundary probes of its own type.

A new verb or flag needs no line here.
"""

from __future__ import annotations

import pytest
from support import valid_line

from spoolctl import argv, jsontext, registry
from spoolctl.errors import SpoolctlError

BLOCKING_VERBS = {"work", "wait", "lease"}
BLOCKING_FLAGS = {"follow", "wait", "watch", "wait_timeout", "idle_timeout", "max_events", "poll_interval"}


def cases():
    for verb in registry.VERBS:
        try:
            spec = registry.load(verb).SPEC
        except ModuleNotFoundError:
            continue
        for item in (*spec.flags, *spec.args):
            if item.type is None:
                continue
            for group, words in item.type.probes().items():
                if words:
                    yield pytest.param(verb, item, group, words, id=f"{verb}-{item.name}-{group}")


CASES = list(cases())


def shown(word):
    """A value as a refusal shows it."""
    return jsontext.plain(word if len(word) <= 200 else word[:197] + "...")


def positional(spec, item):
    return item in spec.args


@pytest.mark.parametrize(("verb", "item", "group", "words"), CASES)
def test_every_value_is_accepted_or_refused_at_its_limits(spool, verb, item, group, words):
    spec = registry.load(verb).SPEC
    for word in words:
        if positional(spec, item) and argv.looks_like_flag(word):
            continue
        line = valid_line(spec, item.dest, values={item.dest: word})
        if group == "valid":
            accepts(spool, spec, item, line)
        else:
            refuses(spool, spec, item, line, group, word)
    if group != "valid":
        assert spool.files() == []


def accepts(spool, spec, item, line):
    if spec.name in BLOCKING_VERBS or BLOCKING_FLAGS & argv.parse(spec, line).given:
        return
    answer = spool.run("--json", spec.name, *line)
    if answer.code in ("INVALID_INPUT", "MISSING_REQUIRED"):  # of something else, or of the combination
        detail = answer.error["detail"]
        assert detail.get("flag") != item.name or detail["value"] is None, answer


def refuses(spool, spec, item, line, group, word):
    answer = spool.run("--json", spec.name, *line)
    assert answer.code == "INVALID_INPUT", answer
    assert answer.exit == 1
    detail = answer.error["detail"]
    assert detail["flag"] == item.name, answer
    assert detail["value"] == shown(word), answer
    if group == "low":
        assert detail["minimum"] is not None, answer
    if group == "high":
        assert detail["maximum"] is not None, answer
    if item.type.choices:
        assert set(detail["choices"]) == set(item.type.choices), answer
    assert answer.error["message"].startswith(item.name)


@pytest.mark.parametrize(("verb", "item", "group", "words"), CASES)
def test_a_refused_value_is_refused_alike_behind_a_blank(verb, item, group, words):
    spec = registry.load(verb).SPEC
    if positional(spec, item):
        return
    known = {flag.name for flag in spec.flags} | {flag.short for flag in spec.flags}
    for word in words:
        line = valid_line(spec, item.dest, values={item.dest: word})
        if word == "--" or word.partition("=")[0] in known:
            continue
        at = line.index(f"{item.name}={word}")
        spaced = [*line[:at], item.name, word, *line[at + 1 :]]
        assert outcome(spec, line) == outcome(spec, spaced)


def outcome(spec, line):
    try:
        return vars(argv.parse(spec, line))
    except SpoolctlError as error:
        return error.code, error.message, error.detail


@pytest.mark.parametrize("verb", registry.VERBS)
def test_every_default_is_a_value_its_flag_accepts(verb):
    for flag in registry.load(verb).SPEC.flags:
        if flag.type is None or flag.repeat:
            assert not flag.default, flag.name
        elif flag.default is not None:
            several = isinstance(flag.default, (list, tuple))
            text = ",".join(flag.default) if several else str(flag.default)
            assert flag.type.parse(text) == (list(flag.default) if several else flag.default), flag.name


@pytest.mark.parametrize("verb", registry.VERBS)
def test_every_rule_of_a_verb_names_its_own_flags_and_arguments(verb):
    spec = registry.load(verb).SPEC
    names = [flag.dest for flag in spec.flags] + [arg.dest for arg in spec.args]
    assert len(names) == len(set(names))
    spellings = [flag.name for flag in spec.flags] + [
        f.short for f in spec.flags if f.short and f.short != f.name
    ]
    assert len(spellings) == len(set(spellings))
    for a, b in spec.exclusive:
        assert {a, b} <= set(names), (a, b)
    for a, others in spec.needs.items():
        assert {a, *others} <= set(names), (a, others)
    assert set(spec.one_of) <= set(names)


@pytest.mark.parametrize("verb", registry.VERBS)
def test_every_verb_says_what_it_may_answer(verb):
    from spoolctl import errors

    spec = registry.load(verb).SPEC
    assert spec.name == verb
    assert spec.summary
    assert spec.summary[0].islower() or spec.summary[0].isdigit()
    assert not spec.summary.endswith(".")
    assert spec.examples
    assert set(spec.errors) <= set(errors.ERRORS)
    assert {"INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"} <= set(spec.errors)
    assert set(spec.warnings) <= set(errors.WARNINGS)
    assert set(spec.exits) <= set(errors.EXITS)
    assert "envelope" in spec.modes
    assert "text" in spec.modes
    for flag in spec.flags:
        assert flag.help, flag.name
        assert not flag.help.endswith("."), flag.name
    for arg in spec.args:
        assert arg.help, arg.name


@pytest.mark.parametrize("verb", registry.VERBS)
def test_every_example_is_a_command_line_of_the_verb(verb):
    import shlex

    spec = registry.load(verb).SPEC
    for command, meaning in spec.examples:
        assert meaning
        words = shlex.split(command.partition(" > ")[0])
        while words and words[0] != "spoolctl":
            words = words[1:]
        until = next((i for i, word in enumerate(words) if word in ("|", ";", "&&")), len(words))
        name, rest = argv.split_verb(words[1:until])
        if name == verb:
            argv.parse(spec, rest)
    assert any(f"spoolctl {verb}" in command for command, _ in spec.examples)
