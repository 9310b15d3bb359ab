"""Calls around the verbs: help and version, environment variables, and every example of the document."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from .calls import OK, Call, Expected
from .contract import Contract, Verb, before_dashes, is_switch
from .lines import Given, bounds, complete, confirmed, minimal, tokens

WRONG = "--entirely-unheard-of"


def calls(contract: Contract) -> Iterator[Call]:
    yield from _help(contract)
    for name, variable in contract.doc["env_vars"].items():
        yield from _variable(contract, name, variable)
    for verb in contract.verbs.values():
        for command, _ in verb.doc["examples"]:
            yield _example(contract, verb.name, command, OK)
    for code, row in contract.doc["code_registry"].items():
        if "example" not in row:
            continue
        expected = OK
        if row["situation"] is None and "errors" in row["appears_in"]:
            expected = Expected(code, row["exit_code"])
        for command in (row["example"], _in_json(contract, row["example"])):
            yield _example(contract, code, command, expected)
    for key in ("schemas_uri", "robot_docs_uri"):
        yield _example(contract, key, contract.doc[key], OK)


def _help(contract: Contract) -> Iterator[Call]:
    flags = {flag["name"]: flag for flag in contract.doc["global_flags"]["flags"]}
    text = Expected(special="text")
    for spelled in ("--help", *flags["--help"]["aliases"]):
        for more in ([], ["--json"]):
            yield Call("help", None, spelled, [spelled, *more], text)
            for name in contract.verbs:
                yield Call("help", name, spelled, [name, spelled, *more], text)
    for line in (["--version"], ["--version", "--json"], ["--json", "--version"]):
        yield Call("help", None, "--version", line, Expected(special="version"))


def _variable(contract: Contract, name: str, variable: dict[str, Any]) -> Iterator[Call]:
    wrong: dict[str, str] = {"empty": ""}
    if variable["maximum"]:
        wrong["out_of_range"] = "x" * (variable["maximum"] + 1)
    for verb in contract.verbs.values():
        consumes = verb.name in variable["consumed_by"]
        line = ["--json", *confirmed(verb)]
        for reason, word in wrong.items():
            verdict = variable["malformed_expectations"].get(reason)
            env = {name: word}
            spared = verb.name in variable.get("accepted_malformed_by", ())
            counts = verdict and consumes and not spared
            refused = Expected(verdict["code"], verdict["exit_code"]) if counts else OK
            yield Call("env", verb.name, f"{name} {reason}", line, refused, env=env)
            shadow = variable["shadowed_by"]
            if verdict and shadow in verb.flags:
                shadowed = ["--json", *tokens(verb, complete(verb, [(shadow, "new/name")]))]
                yield Call("env", verb.name, f"{name} shadowed", shadowed, env=env)
        if variable["type"] == "word":
            env = {name: variable["grammar"]}
            yield Call("env", verb.name, name, minimal(verb), env=env)
            yield Call("env", verb.name, name, line, env=env)
            unknown = Expected("UNKNOWN_FLAG", contract.exit_of("UNKNOWN_FLAG"))
            yield Call(
                "env", verb.name, f"{name} at a refusal", ["--json", verb.name, WRONG], unknown, env=env
            )


def _in_json(contract: Contract, command: str) -> str:
    return command.replace(contract.tool + " ", contract.tool + " --json ", 1)


def _example(contract: Contract, subject: str, command: str, expected: Expected) -> Call:
    """The last call of the line is what is judged; what it may wait for is bounded as in any call.

    What is meant for another shell, or for the home directory, is tried without it.
    """
    inner = re.search(r"\$\((.*)\)", command)
    command = re.sub(r" > ~\S+$", "", inner[1] if inner else command)
    words = shlex.split(re.split(r" > ", command)[0])
    last = len(words) - words[::-1].index(contract.tool)
    line = words[last:]
    name = next((word for word in line if word in contract.verbs), None)
    if name is not None:
        verb = contract.verbs[name]
        more = [word for pair in bounds(verb, _given(verb, line)) for word in pair if word is not None]
        line, command = line + more, " ".join([command, *more])
    return Call("examples", name, subject, line, expected, shell=command)


def _given(verb: Verb, line: list[str]) -> Given:
    """The flags of a line with their words, and its arguments by name."""
    full = {alias: flag["name"] for flag in verb.flags.values() for alias in (flag["name"], *flag["aliases"])}
    found: Given = []
    rest = list(before_dashes(line))
    while rest:
        name, equals, word = rest.pop(0).partition("=")
        if name not in full:
            found += [(arg["name"], name) for arg in verb.args[:1] if name != verb.name]
        elif is_switch(verb.flags[full[name]]):
            found.append((full[name], None))
        else:
            found.append((full[name], word if equals or not rest else rest.pop(0)))
    return found
