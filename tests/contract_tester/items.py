"""What the document says of one flag or argument, against itself: bounds, defaults, promises, vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .contract import Contract, Item, Verb, is_switch

UNFED = ("choice", "choice_list", "path")  # types whose valid words the document lists elsewhere, or cannot


def findings(contract: Contract, verb: Verb) -> Iterator[str]:
    items = [*verb.flags.values(), *verb.args]
    spelled = [word for flag in verb.doc["flags"] for word in (flag["name"], *flag["aliases"])]
    if len(spelled) != len(set(spelled)) or len({item["name"] for item in items}) != len(items):
        yield "a name stands for two things"
    if verb.doc["positionals"] != verb.args:
        yield "args and positionals differ"
    for item in items:
        for finding in (*_of_item(contract, item), *_promises(contract, verb, item)):
            yield f"{item['name']}: {finding}"
    for flag in verb.flags.values():
        if flag["flag"] != flag["name"] or flag["value_required"] is is_switch(flag):
            yield f"{flag['name']}: its name or its need of a value is not told alike twice"


def _of_item(contract: Contract, item: Item) -> Iterator[str]:
    low, high = item["minimum"], item["maximum"]
    if low is not None and high is not None and low > high:
        yield f"minimum {low} is above maximum {high}"
    if item["unbounded"] and (high is not None or item.get("parts") or item["choices"]):
        yield "unbounded, and yet bounded"
    if is_switch(item):
        if item["default"] is not False:
            yield "a switch that is on by default"
        return
    words = contract.doc["probe_vocabularies"].get(item["type"])
    if words is None:
        yield f"no vocabulary for {item['type']}"
    elif words["valid"] is None and item["type"] not in UNFED:
        yield f"no valid word for {item['type']}"
    if item["type"] in ("choice", "choice_list") and not item["choices"]:
        yield "choices without any"
    if not within(item, item["default"]):
        yield f"the default {item['default']!r} is none of its values"


def within(facts: dict[str, Any], value: Any) -> bool:
    """Whether a value, as the document gives it, lies within the bounds beside it."""
    if value is None:
        return True
    if isinstance(value, list):
        return all(within(facts, one) for one in value)
    if facts.get("choices"):
        return value in facts["choices"]
    low, high = facts.get("minimum"), facts.get("maximum")
    size = len(value) if isinstance(value, str) else value
    if low is not None and (size < low or (size == low and facts.get("exclusive_minimum"))):
        return False
    return high is None or size <= high


def _promises(contract: Contract, verb: Verb, item: Item) -> Iterator[str]:
    told = item["malformed_expectations"]
    for reason, verdict in told.items():
        if verdict is None:
            continue
        if verdict["code"] not in verb.doc["errors"] or verdict["exit_code"] != contract.exit_of(
            verdict["code"]
        ):
            yield f"{reason} promises {verdict}, which the verb does not declare"
    bounded = item["minimum"] is not None or item["maximum"] is not None or bool(item.get("parts"))
    if bounded is not bool(told.get("out_of_range")):
        yield "bounds and out_of_range do not go together"
    if is_switch(item):
        if not told.get("value_given"):
            yield "a switch, and nothing is said of a value on it"
    elif bool(item["choices"] or contract.vocabulary(item).get("invalid")) is not bool(told.get("bad_type")):
        yield "invalid words and bad_type do not go together"
    if item["name"] in verb.flags and item["repeatable"] and told.get("given_twice"):
        yield "repeatable, and refused when given twice"
