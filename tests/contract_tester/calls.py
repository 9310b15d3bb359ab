"""A call and what must come of it, and a sample of calls that leaves out no kind of them.

The same documents give the same calls; a sample is a function of its seed.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable

CATEGORIES = ("valid", "boundary", "malformed", "missing", "excluded", "unknown", "help", "env", "examples")


class Expected:
    """`code` None: the call is in order, and answers as its verb says. Else it is refused with that code.

    `flags`: the refusal names one of these. `near`: it suggests one of these. `special`: the one key of
    the data of --help and --version.
    """

    __slots__ = ("code", "exit_code", "flags", "near", "special")

    def __init__(
        self,
        code: str | None = None,
        exit_code: int | None = None,
        flags: Iterable[str] = (),
        near: Iterable[str] = (),
        special: str | None = None,
    ) -> None:
        self.code = code
        self.exit_code = exit_code
        self.flags = frozenset(flags)
        self.near = frozenset(near)
        self.special = special

    def __str__(self) -> str:
        if self.code is None:
            return "an answer in order"
        more = f" naming {' or '.join(sorted(self.flags))}" if self.flags else ""
        more += f", suggesting {' or '.join(sorted(self.near))}" if self.near else ""
        return f"{self.code}, exit {self.exit_code}{more}"


OK = Expected()


class Call:
    """One call. `verb` None: it calls none that there is. `shell`: the line goes through `sh -c` instead.
    `alone`: it runs where there is nothing.
    """

    __slots__ = ("alone", "category", "env", "expected", "shell", "stdin", "subject", "tokens", "verb")

    def __init__(
        self,
        category: str,
        verb: str | None,
        subject: str,
        tokens: list[str],
        expected: Expected = OK,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
        shell: str | None = None,
        alone: bool = False,
    ) -> None:
        self.category = category
        self.verb = verb
        self.subject = subject  # the flag, argument or rule that the call is about
        self.tokens = tokens
        self.expected = expected
        self.stdin = stdin
        self.env = env or {}
        self.shell = shell
        self.alone = alone or expected.code not in (None, "NOT_FOUND") and shell is None

    @property
    def stratum(self) -> tuple[str, str, str]:
        return self.category, self.verb or "", self.subject

    def pasted(self, tool: str) -> str:
        """The command as a reader can run it again."""
        line = self.shell or shlex.join([tool, *self.tokens])
        words = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        feed = f"printf %s {shlex.quote(self.stdin)} | " if self.stdin is not None else ""
        return feed + " ".join([*words, line])


def sample(calls: list[Call], count: int, seed: int) -> list[Call]:
    """At least one call of each stratum, and as many more as make up `count`, drawn by `seed`."""
    rng = random.Random(seed)
    shuffled = rng.sample(calls, len(calls))
    first = {call.stratum: call for call in shuffled}
    chosen = set(map(id, first.values()))
    more = [call for call in shuffled if id(call) not in chosen]
    chosen |= set(map(id, more[: max(0, count - len(chosen))]))
    return [call for call in calls if id(call) in chosen]


def tally(calls: list[Call]) -> dict[str, int]:
    return {name: sum(call.category == name for call in calls) for name in CATEGORIES}
