"""Calls that must be refused, each for one reason that the capabilities name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import words
from .calls import Call, Expected
from .contract import Contract, Item, Verb, is_switch, nearest
from .lines import complete, minimal, spell, tokens

STRAY = "stray-word"


def of_verb(contract: Contract, verb: Verb) -> Iterator[Call]:
    for flag in verb.flags.values():
        yield from _bad_words(contract, verb, flag)
        yield from _bad_syntax(contract, verb, flag)
    for arg in verb.args:
        yield from _bad_words(contract, verb, arg)
    yield from _missing(contract, verb)
    yield from _excluded(contract, verb)
    yield from _unknown_flags(contract, verb)
    if verb.most_words is not None:
        full = [(arg["name"], words.valid(contract, arg)[0]) for arg in verb.args]
        line = [*tokens(verb, complete(verb, full)), STRAY]
        yield Call("unknown", verb.name, "stray word", line, _refused(contract, "INVALID_INPUT"))


def _refused(
    contract: Contract, code: str, flags: tuple[str, ...] = (), near: set[str] | None = None
) -> Expected:
    return Expected(code, contract.exit_of(code), flags, near or ())


def _promised(item: Item, reason: str, near: set[str] | None = None) -> Expected | None:
    """What the item itself says of this kind of malformed use; None where it says nothing."""
    verdict: dict[str, Any] | None = item["malformed_expectations"].get(reason)
    if verdict is None:
        return None
    return Expected(verdict["code"], verdict["exit_code"], (item["name"],), near or ())


def _bad_words(contract: Contract, verb: Verb, item: Item) -> Iterator[Call]:
    name = item["name"]
    wrong = [("boundary", "out_of_range", word, set[str]()) for word in words.outside(contract, item)]
    known = set(item["choices"] or ())
    for word, near in words.malformed(contract, item):
        hint = nearest(word.rpartition(",")[2], known) if near else set()
        wrong.append(("malformed", "bad_type", word, hint))
    for category, reason, word, hint in wrong:
        expected = _promised(item, reason, hint)
        if expected is None:
            continue
        line = complete(verb, [(name, word)])
        yield Call(category, verb.name, name, tokens(verb, line), expected)
        if name in verb.flags:
            yield Call(category, verb.name, name, tokens(verb, line, joined=True), expected)


def _bad_syntax(contract: Contract, verb: Verb, flag: Item) -> Iterator[Call]:
    def call(reason: str, line: list[str]) -> Iterator[Call]:
        expected = _promised(flag, reason)
        if expected is not None:
            yield Call("malformed", verb.name, f"{flag['name']} {reason}", line, expected)

    name = flag["name"]
    plain = words.valid(contract, flag)[0]
    line = complete(verb, [(name, plain)])
    without = [pair for pair in line if pair[0] != name]
    if is_switch(flag):
        for word in ("1", "true", ""):
            yield from call("value_given", tokens(verb, without, behind=(f"{name}={word}",)))
        yield from call("given_twice", tokens(verb, [*line, (name, None)]))
        return
    other = next(one for one in verb.flags if one != name)
    for spelled in (name, *flag["aliases"]):
        yield from call("missing_value", tokens(verb, without, behind=(spelled,)))
        yield from call("value_is_another_flag", tokens(verb, without, behind=(spelled, other)))
        yield from call("value_is_another_flag", tokens(verb, without, behind=(spelled, name)))
        yield from call("given_twice", tokens(verb, line, behind=tuple(spell(spelled, plain))))
        yield from call("given_twice", tokens(verb, line, behind=tuple(spell(spelled, plain, joined=True))))


def _missing(contract: Contract, verb: Verb) -> Iterator[Call]:
    nothing = _refused(contract, "MISSING_REQUIRED")
    for item in (*verb.flags.values(), *verb.args):
        if item["required"]:
            line = tokens(verb, complete(verb, [], leave=frozenset({item["name"]})))
            yield Call("missing", verb.name, item["name"], line, nothing)
    one_of = verb.doc["one_of"]
    if one_of:
        leave = frozenset(one_of)
        yield Call("missing", verb.name, "one_of", tokens(verb, complete(verb, [], leave)), nothing)
        for flag in verb.flags.values():
            others = set(verb.doc["needs"].get(flag["name"], ()))
            if flag["name"] not in leave | {"--help"} and not others:
                given = [(flag["name"], words.valid(contract, flag)[0])]
                line = tokens(verb, complete(verb, given, leave))
                yield Call("missing", verb.name, f"one_of {flag['name']}", line, nothing)
    for name, others in verb.doc["needs"].items():
        given = [(name, words.valid(contract, verb.item(name))[0])]
        line = tokens(verb, complete(verb, given, leave=frozenset(others)))
        if set(others) & {one for one, _ in complete(verb, given, leave=frozenset(others))}:
            continue
        yield Call(
            "missing", verb.name, f"needs of {name}", line, _refused(contract, "INVALID_INPUT", (name,))
        )


def _excluded(contract: Contract, verb: Verb) -> Iterator[Call]:
    for a, b in verb.pairs:
        refused = _refused(contract, "INVALID_INPUT", (a, b))
        for pair in ((a, b), (b, a)):
            given = [(name, words.valid(contract, verb.item(name))[0]) for name in pair]
            yield Call("excluded", verb.name, f"{a} {b}", tokens(verb, complete(verb, given)), refused)
    ids = next((arg for arg in verb.args if arg["type"] == "job_id"), None)
    for name in verb.doc["only_with_key"] if ids else ():
        given = [(name, words.valid(contract, verb.item(name))[0]), (ids["name"], "1")]
        refused = _refused(contract, "INVALID_INPUT", (name, ids["name"]))
        yield Call(
            "excluded", verb.name, f"{name} without a key", tokens(verb, complete(verb, given)), refused
        )


def _unknown_flags(contract: Contract, verb: Verb) -> Iterator[Call]:
    base = minimal(verb)

    def call(subject: str, spelled: list[str], near: set[str] | None = None) -> Call:
        refused = _refused(contract, "UNKNOWN_FLAG", near=near)
        return Call("unknown", verb.name, subject, [base[0], *spelled, *base[1:]], refused)

    for name in verb.flags:
        if name.startswith("--"):
            for wrong in misspelled(name, 3):
                if wrong not in verb.spellings:
                    yield call(name, [wrong], nearest(wrong, verb.spellings))
            short = name[: max(4, len(name) // 2)]
            if short not in verb.spellings:
                yield call(name + " abbreviated", [short])
    for wrong in ("--entirely-unheard-of", "--entirely-unheard-of=1", "-Z", "---"):
        yield call("far away", [wrong])
    for other in contract.verbs.values():
        for name in sorted(other.spellings - verb.spellings):
            yield call("of other verbs", [name])
    foreign = {flag["name"]: flag for flag in contract.doc["global_flags"]["flags"]}
    for name in sorted(foreign.keys() - verb.flags.keys()):
        spelled = spell(name, words.valid(contract, foreign[name])[0])
        yield call(name + " of the tool", spelled)
        refused = _refused(contract, "UNKNOWN_FLAG")
        yield Call("unknown", verb.name, name + " of the tool", [*spelled, *base], refused)


def of_no_verb(contract: Contract) -> Iterator[Call]:
    unknown = "UNKNOWN_COMMAND"
    for name in contract.verbs:
        for wrong in misspelled(name, 0):
            if wrong not in contract.verbs:
                near = nearest(wrong, set(contract.verbs))
                yield Call("unknown", None, name, [wrong], _refused(contract, unknown, near=near))
        if name[:2] not in contract.verbs:
            yield Call("unknown", None, name + " abbreviated", [name[:2]], _refused(contract, unknown))
    for wrong in ("entirely-unheard-of", "", " ", "ADD", "help"):
        yield Call("unknown", None, "verb far away", [wrong], _refused(contract, unknown))
    yield Call("missing", None, "verb", [], _refused(contract, "MISSING_REQUIRED"))
    yield Call("unknown", None, "flag", ["--entirely-unheard-of"], _refused(contract, "UNKNOWN_FLAG"))


def misspelled(word: str, fixed: int) -> list[str]:
    """`word` one edit away, in each way once; its first `fixed` characters stay."""
    at = (fixed + len(word)) // 2
    swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    found = [
        word[:at] + word[at + 1 :],
        word[:at] + "x" + word[at:],
        word[:at] + "x" + word[at + 1 :],
        swapped,
    ]
    return [one for one in dict.fromkeys([*found, word + "x"]) if one != word and len(one) > fixed]
