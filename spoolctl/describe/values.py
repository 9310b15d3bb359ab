"""Flags and arguments as data, and the words a tester can feed to each type.

What a malformed value gets is what the parser does for every flag alike (SPEC 2.3).
"""

from ..contract.addflags import COMMANDS, FLAGS, SPELLINGS
from ..contract.spec import Arg, Flag, Verb
from ..contract.types import (
    BadValue,
    Command,
    Duration,
    Float,
    Integer,
    Timestamp,
    Type,
    VerbName,
    is_utf8,
)
from ..errors import ERRORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

WORD_MAX = 300  # longer probes are left to the reader, who has the flag's own bounds

# The facts of a switch, which takes no value.
_SWITCH: "Json" = {"type": "switch", "minimum": None, "maximum": None, "unbounded": False, "choices": None}


def verdict(code: str) -> "Json":
    return {"code": code, "exit_code": ERRORS[code][0]}


def flag(item: Flag, verbs: "list[str] | None" = None) -> "Json":
    """`verbs` are the words of a flag that takes the name of a verb; its type does not know them."""
    kind = item.type
    default: object = item.default
    if kind is None:
        default = False
    elif item.repeat:
        default = []
    elif isinstance(default, tuple):
        default = list(default)
    found: "Json" = {
        "name": item.name,
        "flag": item.name,
        "aliases": [item.short] if item.short and item.short != item.name else [],
        "description": item.help,
        **(kind.describe() if kind else _SWITCH),
        "required": item.required,
        "default": default,
        "repeatable": item.repeat,
        "value_required": kind is not None,
        "malformed_expectations": _of_flag(item),
    }
    if isinstance(kind, VerbName) and verbs:
        found["choices"] = verbs
        found["unbounded"] = False
        found["malformed_expectations"]["bad_type"] = verdict("INVALID_INPUT")
    if item.config:
        found["config_key"] = f"defaults.{item.config}"
    return found


def arg(item: Arg) -> "Json":
    needed = item.nargs in ("1", "+")
    return {
        "name": item.name,
        "flag": None,
        "aliases": [],
        "description": item.help,
        "nargs": item.nargs,
        **item.type.describe(),
        "required": needed,
        "default": None,
        "repeatable": item.nargs in ("*", "+", "remainder"),
        "value_required": True,
        "malformed_expectations": {
            "missing_value": verdict("MISSING_REQUIRED") if needed else None,
            **_of_type(item.type),
        },
    }


def _of_type(kind: Type) -> "Json":
    bad = any(refusal(kind, word) == "grammar" for word in _words(kind))
    bounded = any(refusal(kind, word) == "limits" for word in _words(kind, longest=None))
    return {
        "bad_type": verdict("INVALID_INPUT") if bad else None,
        "out_of_range": verdict("INVALID_INPUT") if bounded else None,
    }


def _of_flag(item: Flag) -> "Json":
    refused = verdict("INVALID_INPUT")
    # Behind --help nothing is read any more, not even a second one.
    once = item.repeat or item.dest == "help"
    twice = {} if once else {"given_twice": refused}
    if item.type is None:
        return {"value_given": refused, **twice}
    return {"missing_value": refused, "value_is_another_flag": refused, **_of_type(item.type), **twice}


def refusal(kind: Type, word: str) -> "str | None":
    """Why a type refuses a word: `grammar` or `limits`; None when it takes it."""
    try:
        kind.parse(word)
    except BadValue as bad:
        return "limits" if "minimum" in bad.facts or "maximum" in bad.facts else "grammar"
    return None


def _words(kind: Type, longest: "int | None" = WORD_MAX) -> "list[str]":
    words = [word for group in kind.probes().values() for word in group if is_utf8(word)]
    return [word for word in words if longest is None or len(word) <= longest]


def line() -> "Json":
    """A line of `add --from`: a shell command, or a JSON object with the flags as keys."""
    keys: "Json" = {
        "command": {**Command().describe(), "json_types": ["string"]},
        "argv": {**Command().describe(), "json_types": ["array of strings"]},
    }
    assert set(keys) == set(COMMANDS)
    for item in FLAGS:
        keys[item.dest] = {
            **(item.type.describe() if item.type else _SWITCH),
            "json_types": _json_types(item),
        }
    for name, dest in SPELLINGS.items():
        keys[name] = keys[dest]
    return {
        "text": "a shell command; blank lines and those that begin with # are skipped; a line that begins "
        "with { is a JSON object with argv or command, and with null for what the command line says",
        "json": keys,
    }


def _json_types(item: Flag) -> "list[str]":
    """What a flag's value may be in a line of JSON; null is as if it were not given."""
    if item.type is None:
        return ["boolean"]
    if item.repeat:
        return ["object of strings", "array of strings", "string"]
    found = json_types(item.type)
    return found if "null" in found else [*found, "null"]


def json_types(kind: Type) -> "list[str]":
    """What a value of the type may be in JSON; null is `none`."""
    number = isinstance(kind, (Integer, Float, Duration, Timestamp))
    return [*(["number"] if number else []), "string", *(["null"] if kind.none else [])]


def _signed(word: str) -> bool:
    return word.startswith("-")


def vocabularies(specs: "dict[str, Verb]") -> "Json":
    """By type the words that every flag and argument of the type takes, or refuses.

    Bounds differ from flag to flag: a word stands here only when it holds for each of them, and the
    rest follows from the bounds of the flag.
    """
    kinds: "dict[str, list[Type]]" = {}
    for spec in specs.values():
        for kind in [item.type for item in spec.flags] + [item.type for item in spec.args]:
            if kind is not None:
                kinds.setdefault(kind.name, []).append(kind)
    return {name: _vocabulary(kinds[name]) for name in sorted(kinds)}


def _vocabulary(kinds: "list[Type]") -> "Json":
    words = list(dict.fromkeys(word for kind in kinds for word in _words(kind)))
    told = {word: {refusal(kind, word) for kind in kinds} for word in words}
    taken = [word for word in words if told[word] == {None} and word]
    outside = [word for word in words if told[word] == {"limits"}]
    found: "Json" = {
        "valid": taken[0] if taken else None,
        "invalid": [word for word in words if told[word] == {"grammar"}],
    }
    low, high = ([word for word in outside if _signed(word) is sign] for sign in (True, False))
    zero = [word for word in high if word.startswith("0")]  # below a minimum of one or more
    if low:
        found["out_of_range_low"] = low[0]
    if len(high) > len(zero):
        found["out_of_range_high"] = next(word for word in high if word not in zero)
    return found
