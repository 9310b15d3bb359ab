"""Capabilities in, every call that follows from them out, each with what must come of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import around, refusals, words
from .calls import OK, Call, Expected
from .contract import Contract, Item, Verb, is_switch
from .lines import complete, confirmed, minimal, spell, tokens

IDS = ("2", "3", "4", "5", "6", "7")  # the seed has them, in several states
NOBODY = "999999999"
EVERY_TEXT = 5  # one in so many calls is made a second time without --json


def calls(contract: Contract) -> list[Call]:
    found: list[Call] = []
    for verb in contract.verbs.values():
        found += _valid(contract, verb)
        found += refusals.of_verb(contract, verb)
    found += refusals.of_no_verb(contract)
    found = [twin for n, call in enumerate(found) for twin in _modes(contract, call, n)]
    return found + list(around.calls(contract))


def _modes(contract: Contract, call: Call, n: int) -> Iterator[Call]:
    """The call in JSON mode, unless it excludes that, and some calls in text mode besides."""
    flags = [token.partition("=")[0] for token in call.tokens]
    verb = contract.verbs.get(call.verb or "")
    raw = verb is not None and verb.selects("raw", call.tokens)
    if call.tokens and not raw and "--json" not in flags:
        # Before the verb, behind it, or last: anywhere but behind `--`.
        places = [0, 1] if verb is not None and call.tokens[0] == verb.name else [0]
        places += [] if "--" in call.tokens else [len(call.tokens)]
        at = places[n % len(places)]
        yield _with(call, [*call.tokens[:at], "--json", *call.tokens[at:]])
    if raw or n % EVERY_TEXT == 0 or "--json" in flags or not call.tokens:
        yield call
    if not call.tokens:
        yield _with(call, ["--json"])


def _with(call: Call, line: list[str]) -> Call:
    return Call(
        call.category, call.verb, call.subject, line, call.expected, call.stdin, call.env, alone=call.alone
    )


def _valid(contract: Contract, verb: Verb) -> Iterator[Call]:
    def call(subject: str, line: list[str], expected: Expected = OK, stdin: str | None = None) -> Call:
        return Call("valid", verb.name, subject, line, expected, stdin)

    yield call("minimal", minimal(verb))
    yield call("confirmed", confirmed(verb))
    yield Call("valid", verb.name, "nothing there", minimal(verb), alone=True)
    for flag in verb.flags.values():
        if flag["name"] != "--help":
            for line in _of_flag(contract, verb, flag):
                yield call(flag["name"], line)
    for arg in verb.args:
        for word in words.valid(contract, arg):
            yield call(arg["name"], tokens(verb, complete(verb, [(arg["name"], word)])))
        if arg["type"] == "job_id":
            yield from _of_ids(verb, arg, call)
        if arg["repeatable"]:
            pair = words.valid(contract, arg)[:1] * 2
            yield call(
                arg["name"] + " twice", tokens(verb, complete(verb, [(arg["name"], word) for word in pair]))
            )
    for line, text in _fed(verb):
        yield call("stdin", line, stdin=text)
    yield from _pairs(verb, call)


def _of_flag(contract: Contract, verb: Verb, flag: Item) -> Iterator[list[str]]:
    name = flag["name"]
    for word in words.valid(contract, flag):
        line = complete(verb, [(name, word)])
        yield tokens(verb, line)
        if word is not None:
            yield tokens(verb, line, joined=True)
    plain = words.valid(contract, flag)[0]
    rest = complete(verb, [(name, plain)])
    behind = tokens(verb, [pair for pair in rest if pair != (name, plain)])
    for alias in flag["aliases"]:
        yield [behind[0], *spell(alias, plain), *behind[1:]]
        if plain is not None:
            yield [behind[0], *spell(alias, plain, joined=True), *behind[1:]]
    if name in {one["name"] for one in contract.doc["global_flags"]["flags"]}:
        yield [*spell(name, plain), *behind]
    if flag["repeatable"]:
        yield tokens(verb, complete(verb, [(name, plain), (name, _other(flag, str(plain)))]))


def _other(flag: Item, word: str) -> str:
    """A second word that does not repeat the first one's key."""
    return "other" + word if flag.get("parts") else word


def _of_ids(verb: Verb, arg: Item, call) -> Iterator[Call]:  # type: ignore[no-untyped-def]
    for word in IDS:
        yield call(f"{arg['name']} {word}", tokens(verb, complete(verb, [(arg["name"], word)])))
    if "NOT_FOUND" in verb.doc["errors"]:
        unknown = Expected("NOT_FOUND", verb.contract.exit_of("NOT_FOUND"))
        line = tokens(verb, complete(verb, [(arg["name"], NOBODY)]))
        yield call(f"{arg['name']} of nobody", line, unknown)


def _fed(verb: Verb) -> Iterator[tuple[list[str], str]]:
    """Calls that read standard input, where the verb says which flag and word do that."""
    found = re.match(r"with (--\S+) (\S+):", verb.doc["stdin"] or "")
    if found:
        line = tokens(verb, complete(verb, [(found[1], found[2])]))
        for text in ("true\n", "true\nexit 1", "# nothing\n\n", ""):
            yield line, text


def _pairs(verb: Verb, call) -> Iterator[Call]:  # type: ignore[no-untyped-def]
    """Each two flags together that do not exclude each other, with their plainest words."""
    flags = [flag for flag in verb.flags.values() if flag["name"] not in ("--help", "--json", "--db")]
    for n, one in enumerate(flags):
        for other in flags[n + 1 :]:
            names = {one["name"], other["name"]}
            if verb.excludes(one["name"], names):
                continue
            line = complete(verb, [(f["name"], words.valid(verb.contract, f)[0]) for f in (one, other)])
            given = {name for name, _ in line}
            if any(verb.excludes(name, given) for name in given) or _unmet(verb, given):
                continue  # what the one needs the other excludes
            yield call(
                f"{one['name']} {other['name']}" if is_switch(one) else "two flags", tokens(verb, line)
            )


def _unmet(verb: Verb, given: set[str]) -> bool:
    return any(name in given and not given & set(others) for name, others in verb.doc["needs"].items())
