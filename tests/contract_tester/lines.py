"""Whole command lines: what a call needs besides the words under test.

A line satisfies what is required, what is needed and one of each choice, excludes nothing, and is bounded
in time, all by the verb's own description.
"""

from __future__ import annotations

import re

from . import words
from .contract import Item, Verb, is_switch

Given = list[tuple[str, "str | None"]]  # (name of a flag or argument, word), in the order of the line


def complete(verb: Verb, given: Given, leave: frozenset[str] = frozenset()) -> Given:
    """`given` with all that the call needs, but nothing of `leave`."""
    line = list(given)
    for flag in verb.flags.values():
        if flag["required"]:
            _add(verb, line, flag, leave)
    for arg in verb.args:
        if arg["required"]:
            _add(verb, line, arg, leave)
    for name, others in verb.doc["needs"].items():
        if name in _names(line) and not _names(line) & set(others):
            _add_one_of(verb, line, others, leave)
    one_of = verb.doc["one_of"]
    if one_of and not _names(line) & set(one_of):
        _add_one_of(verb, line, one_of, leave)
    return line + bounds(verb, line, leave)


def _names(line: Given) -> set[str]:
    return {name for name, _ in line}


def _add(verb: Verb, line: Given, item: Item, leave: frozenset[str]) -> None:
    if item["name"] not in _names(line) | leave:
        line.append((item["name"], default_word(verb, item, line)))


def _add_one_of(verb: Verb, line: Given, names: list[str], leave: frozenset[str]) -> None:
    for name in names:
        if name not in leave and not verb.excludes(name, _names(line)):
            _add(verb, line, verb.item(name), leave)
            return


def default_word(verb: Verb, item: Item, line: Given) -> str | None:
    """The plainest word; in a raw answer, or beside a flag that asks for a key, one that goes with it."""
    if item["type"] == "job_id" and _names(line) & set(verb.doc["only_with_key"]):
        return words.KEY
    raw = verb.doc.get("raw")
    if raw and raw["selector"] in _names(line) and item["name"] in raw["only_with"]:
        return str(raw["only_with"][item["name"]][0])
    return words.valid(verb.contract, item)[0]


def bounds(verb: Verb, line: Given, leave: frozenset[str] = frozenset()) -> Given:
    """What to add so that the call ends soon, where it could wait."""
    added: Given = []
    for rule in verb.doc["probe_hints"]["bounded_by"]:
        if rule["when"] is not None and rule["when"] not in _names(line):
            continue
        options = [_pairs(verb, option) for option in rule["add_one_of"]]
        if any(set(option) <= set(line + added) for option in options):
            continue
        for option in options:
            names = _names(option)
            here = _names(line + added)
            if not names & (here | leave) and not any(verb.excludes(name, here) for name in names):
                added += option
                break
    return added


def _pairs(verb: Verb, option: list[str]) -> Given:
    found: Given = []
    rest = list(option)
    while rest:
        name = rest.pop(0)
        found.append((name, None if is_switch(verb.flags[name]) else rest.pop(0)))
    return found


def tokens(verb: Verb, line: Given, joined: bool = False, behind: tuple[str, ...] = ()) -> list[str]:
    """The line as a process is given it, words behind the flags, and `behind` last of what is no command."""
    flags: list[str] = []
    plain: list[str] = []
    for name, word in line:
        if name not in verb.flags and not name.startswith("-"):
            plain.append(str(word))
        else:
            flags += spell(name, word, joined)
    dashes = ["--"] if plain and (verb.takes_rest or any(word.startswith("-") for word in plain)) else []
    if verb.takes_rest:
        return [verb.name, *flags, *behind, *dashes, *plain]
    return [verb.name, *flags, *dashes, *plain, *behind]


def spell(name: str, word: str | None, joined: bool = False) -> list[str]:
    if word is None:
        return [name]
    return [f"{name}={word}"] if joined else [name, word]


def minimal(verb: Verb) -> list[str]:
    return tokens(verb, complete(verb, []))


def confirmed(verb: Verb) -> list[str]:
    """A line that its safety gate lets pass: with the first flags that the gate's description names."""
    found = re.search(r"--[\w-]+(?: --[\w-]+)*", verb.doc.get("safety", ""))
    flags = found[0].split() if found else []
    return tokens(verb, complete(verb, [(name, None) for name in flags]))
