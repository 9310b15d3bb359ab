"""The two documents of the executable, with the look-ups that deriving and judging need.

Every fact comes from the documents; what they do not say is not assumed.
"""

from __future__ import annotations

import re
from typing import Any

Item = dict[str, Any]  # a flag or a positional argument, as the document describes it


class Contract:
    def __init__(self, capabilities: dict[str, Any], schema: dict[str, Any]) -> None:
        self.doc = capabilities
        self.schema = schema
        self.verbs = {name: Verb(name, found, self) for name, found in capabilities["verbs"].items()}
        self.tool = capabilities["tool_name"]

    def exit_of(self, code: str) -> int:
        return int(self.doc["code_registry"][code]["exit_code"])

    def vocabulary(self, item: Item) -> dict[str, Any]:
        found: dict[str, Any] = self.doc["probe_vocabularies"].get(item["type"], {})
        return found

    def ends_with_ok(self) -> set[int]:
        """The statuses besides 0 that go with `ok` true, by the notes of the exit codes."""
        table = self.doc["exit_codes"]
        return {int(status) for status, row in table.items() if re.search(r"\bok\b", row.get("note", ""))}


class Verb:
    def __init__(self, name: str, doc: dict[str, Any], contract: Contract) -> None:
        self.name = name
        self.doc = doc
        self.contract = contract
        self.flags: dict[str, Item] = {flag["name"]: flag for flag in doc["flags"]}
        self.args: list[Item] = doc["args"]
        self.pairs = [tuple(pair) for pair in doc["mutually_exclusive"]]
        self.spellings = {word for flag in doc["flags"] for word in (flag["name"], *flag["aliases"])}

    def item(self, name: str) -> Item:
        return self.flags[name] if name in self.flags else next(a for a in self.args if a["name"] == name)

    def excludes(self, name: str, others: set[str]) -> bool:
        return any((name == a and b in others) or (name == b and a in others) for a, b in self.pairs)

    @property
    def takes_rest(self) -> bool:
        """Whether its words are a command, which stands behind `--`."""
        return bool(self.args) and self.args[-1]["nargs"] == "remainder"

    @property
    def most_words(self) -> int | None:
        """How many words it takes at most; None for any number."""
        if any(arg["repeatable"] for arg in self.args):
            return None
        return len(self.args)

    def selects(self, mode: str, tokens: list[str]) -> bool:
        """Whether `tokens` ask for `frames` or `raw`, by the selector of the mode."""
        found = self.doc.get(mode)
        return bool(found) and set(found["selector"].split()) <= set(before_dashes(tokens))


def before_dashes(tokens: list[str]) -> list[str]:
    return tokens[: tokens.index("--")] if "--" in tokens else tokens


def is_switch(item: Item) -> bool:
    return item["type"] == "switch"


def edits(word: str, other: str) -> int:
    """The edit distance of two words; two neighbours in the wrong order are one edit."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(word, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and word[i - 2] == b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def nearest(word: str, known: set[str]) -> set[str]:
    """Those of `known` that are as near to `word` as any."""
    distance = {one: edits(word, one) for one in known}
    return {one for one, far in distance.items() if far == min(distance.values())}
