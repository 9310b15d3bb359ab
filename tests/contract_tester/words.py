"""The words to feed to a flag or an argument: taken, out of range, and malformed, from its own facts.

A word is left out where no process could be given it, never because of how it is answered.
"""

from __future__ import annotations

from contextlib import suppress

from .contract import Contract, Item, is_switch

LONGEST = 100_000  # bytes of one word; some systems hand no process more than 128 KiB in one
TINY = 0.001
KEY = "key:nightly"

# Of a path the document knows the limits alone: a file, a directory, and nothing at all (seed.py makes them).
PATHS = ("jobs.txt", ".", "new/name")


def valid(contract: Contract, item: Item) -> list[str | None]:
    """Words that the item takes; None for a switch. The first is the plainest."""
    if is_switch(item):
        return [None]
    found: list[str] = []
    if item["choices"]:
        found += item["choices"]
        if item["type"] == "choice_list":
            found += [",".join(item["choices"]), ",".join(reversed(item["choices"][:2]))]
    elif item["type"] == "path":
        found += PATHS
    else:
        word = contract.vocabulary(item).get("valid")
        found += [] if word is None else [word]
    found += _at_bounds(contract, item)
    if item.get("accepts_none"):
        found.append("none")
    if item["type"] == "job_id":
        found += [KEY] + (["1-3"] if "A-B" in item["grammar"] else [])
    return list(dict.fromkeys(word for word in found if len(word.encode()) <= LONGEST))


def _at_bounds(contract: Contract, item: Item) -> list[str]:
    low, high = item["minimum"], item["maximum"]
    if item.get("parts"):
        return [word for part in item["parts"] for word in _parts(item, part, 0)]
    if item.get("bounds") == "length":
        if item["type"] == "path":
            return []  # how long a path may be is for the file system to say
        return [_long(contract, item, n) for n in (low, high) if n]
    found = []
    if low is not None:
        found.append(
            low + (TINY if item["type"] == "duration" else 1) if item.get("exclusive_minimum") else low
        )
    if high is not None:
        found.append(high)
    return [number(value) for value in found]


def outside(contract: Contract, item: Item) -> list[str]:
    """Words one step beyond each bound, and those of the type's vocabulary."""
    if is_switch(item):
        return []
    low, high = item["minimum"], item["maximum"]
    words = contract.vocabulary(item)
    found = [words[key] for key in ("out_of_range_low", "out_of_range_high") if key in words]
    if item.get("parts"):
        found += [word for part in item["parts"] for word in _parts(item, part, 1)]
    elif item.get("bounds") == "length":
        found += [_long(contract, item, high + 1)] if high else []
    else:
        if low is not None:
            found.append(number(low if item.get("exclusive_minimum") else low - 1))
        if high is not None:
            found.append(number(high + 1))
    return list(dict.fromkeys(word for word in found if len(word.encode()) <= LONGEST))


def malformed(contract: Contract, item: Item) -> list[tuple[str, str | None]]:
    """(word, the known word it is nearest to, where it is one edit from one) that the type refuses."""
    if is_switch(item):
        return []
    found: list[tuple[str, str | None]] = [
        (word, None) for word in contract.vocabulary(item).get("invalid", [])
    ]
    for choice in item["choices"] or ():
        found += [(choice + "x", choice), (choice[:-2] + choice[-1] + choice[-2], choice)]
        if item["type"] == "choice_list":
            found.append((f"{choice},{choice}x", choice))
    known = set(item["choices"] or ())
    return [(word, near) for word, near in dict.fromkeys(found) if word not in known]


def _parts(item: Item, part: str, beyond: int) -> list[str]:
    """`KEY=VALUE` with one part as long as it may be, or longer by `beyond`."""
    length = item["parts"][part][1] + beyond
    return ["K" * length + "=v" if part == "key" else "K=" + "v" * length]


def _long(contract: Contract, item: Item, length: int) -> str:
    """A word of that many units, made of the type's own valid word."""
    seed = contract.vocabulary(item).get("valid") or "x"
    size = len(seed.encode()) if item.get("unit") == "bytes" else len(seed)
    return str((seed * (length // size + 1))[:length])


def number(value: float) -> str:
    with suppress(OverflowError):
        if value == int(value):
            return str(int(value))
    return f"{value:f}".rstrip("0")
