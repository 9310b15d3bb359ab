"""What a value type is, and the plain ones: text and choices (SPEC 2.4).

A type parses text, checks a Python value by the same rules, describes itself and lists its own
boundary probes. It raises `BadValue`; whoever knows the flag or field turns that into an
INVALID_INPUT that names it. Nothing here imports `re`: every call of the tool loads this module.
"""

from ..errors import nearest
from . import limits


class BadValue(Exception):
    """A value outside its type's grammar or limits; `facts` go into `detail`."""

    def __init__(self, message: str, did_you_mean: "str | None" = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.did_you_mean = did_you_mean
        self.facts = facts


def is_utf8(text: str) -> bool:
    """Whether `text` holds no lone surrogate, that is: came from valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Type:
    """A value type. `minimum`/`maximum` are inclusive unless `above` (then minimum is exclusive).

    They bound the value, or with `of_length` the length of the text. `parts` are the bounds of the
    lengths of what a text is made of.
    """

    name = "text"
    grammar = "any text"
    minimum: "int | float | None" = None
    maximum: "int | float | None" = None
    above = False
    of_length = False
    unit: "str | None" = None  # of the value or the length
    parts: "dict[str, tuple[int, int]] | None" = None
    charsets: "dict[str, str] | None" = None  # of the same parts
    choices: "tuple[str, ...] | None" = None
    none = False  # whether the word `none` stands for "no limit"
    words: "str | None" = None  # which words of the queue complete a value: `completion --words`

    def parse(self, text: str) -> object:
        """The value of `text`. Raises BadValue."""
        return text

    def check(self, value: object) -> object:
        """The value of a Python or JSON value, by the same rules as `parse`. Raises BadValue."""
        if not isinstance(value, str):
            raise BadValue(f"must be text: {self.grammar}")
        return self.parse(value)

    def bounded(self, value: "int | float", shown: object = None) -> "int | float":
        low, high = self.minimum, self.maximum
        if (low is not None and (value < low or (self.above and value == low))) or (
            high is not None and value > high
        ):
            raise BadValue(f"must be {self.range_text()}", minimum=low, maximum=high)
        return value

    def range_text(self) -> str:
        if self.maximum is None:
            return f"{'above' if self.above else 'at least'} {self.minimum}"
        if self.above:
            return f"above {self.minimum} and at most {self.maximum}"
        return f"from {self.minimum} to {self.maximum}"

    def describe(self) -> "dict[str, object]":
        """What a client must know to make a value, as the capabilities name it.

        Keys behind `grammar` stand only where they say something.
        """
        facts: "dict[str, object]" = {
            "type": self.name,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "unbounded": self.maximum is None and self.parts is None and self.choices is None,
            "choices": list(self.choices) if self.choices is not None else None,
            "grammar": self.grammar,
        }
        if self.above:
            facts["exclusive_minimum"] = True
        if self.of_length:
            facts["bounds"] = "length"
        if self.parts:
            facts["parts"] = {name: list(bounds) for name, bounds in self.parts.items()}
        if self.unit:
            facts["unit"] = self.unit
        if self.none:
            facts["accepts_none"] = True
        return facts

    def probes(self) -> "dict[str, list[str]]":
        """Words a tester can feed in: `valid`, `invalid` (grammar), `low`, `high` (limits)."""
        return {"valid": ["a", "word"], "invalid": [], "low": [], "high": []}


def length(text: str, kind: Type) -> str:
    """`text` when its length is within the type's limits. Raises BadValue."""
    assert kind.maximum is not None
    if not (kind.minimum or 0) <= len(text) <= kind.maximum:
        raise BadValue(
            f"must have {kind.minimum or 0} to {kind.maximum} characters",
            minimum=kind.minimum, maximum=kind.maximum,
        )  # fmt: skip
    return text


def clean(text: str, what: str) -> str:
    if not is_utf8(text):
        raise BadValue(f"{what} must be UTF-8")
    if "\0" in text:
        raise BadValue(f"{what} must not hold a NUL")
    return text


class Text(Type):
    name = "note"
    grammar = "text without NUL"
    minimum = 0
    of_length, unit = True, "characters"

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum

    def parse(self, text: str) -> str:
        return length(clean(text, "text"), self)

    def probes(self) -> "dict[str, list[str]]":
        assert self.maximum is not None
        return {
            "valid": ["", "é", "two\nlines", "x" * int(self.maximum)],
            "invalid": ["\udcff"],
            "low": [],
            "high": ["x" * (int(self.maximum) + 1)],
        }


class Path(Type):
    name = "path"
    grammar = "a path without NUL"
    minimum, maximum = 1, limits.PATH_MAX
    of_length, unit = True, "bytes"

    def __init__(self, directory: bool = False) -> None:
        self.directory = directory  # whether only a directory makes sense; that it is one is not checked

    def parse(self, text: str) -> str:
        if not text:
            raise BadValue("must not be empty")
        if "\0" in text:
            raise BadValue("must not hold a NUL")
        if len(text.encode("utf-8", "surrogateescape")) > limits.PATH_MAX:
            raise BadValue(f"must have 1 to {limits.PATH_MAX} bytes", minimum=1, maximum=limits.PATH_MAX)
        return text

    def probes(self) -> "dict[str, list[str]]":
        return {"valid": [], "invalid": [""], "low": [], "high": ["x" * (limits.PATH_MAX + 1)]}


class Command(Type):
    """A shell command line, or one word of an argv: any bytes but NUL."""

    name = "command"
    grammar = "any text without NUL"

    def parse(self, text: str) -> str:
        if "\0" in text:
            raise BadValue("must not hold a NUL")
        return text

    def probes(self) -> "dict[str, list[str]]":
        return {"valid": ["true", "echo \udcff", "a\nb"], "invalid": [], "low": [], "high": []}


class Choice(Type):
    name = "choice"

    def __init__(self, *choices: str) -> None:
        self.choices = choices
        self.grammar = "|".join(choices)

    def parse(self, text: str) -> str:
        assert self.choices is not None
        if text not in self.choices:
            raise BadValue(
                f"must be one of {', '.join(self.choices)}",
                nearest(text, self.choices),
                choices=list(self.choices),
            )
        return text

    def probes(self) -> "dict[str, list[str]]":
        assert self.choices is not None
        first = self.choices[0]
        return {
            "valid": list(self.choices),
            "invalid": ["", first.upper(), first + "x"],
            "low": [],
            "high": [],
        }


class ChoiceList(Choice):
    """A comma list of choices, as a list without doubles in the order given."""

    name = "choice_list"

    def __init__(self, *choices: str) -> None:
        super().__init__(*choices)
        self.grammar = f"a comma list of {'|'.join(choices)}"

    def parse(self, text: str) -> "list[str]":  # type: ignore[override]
        words = text.split(",")
        try:
            return list(dict.fromkeys(Choice.parse(self, word) for word in words))
        except BadValue as bad:
            bad.did_you_mean = self._corrected(words)
            raise

    def _corrected(self, words: "list[str]") -> "str | None":
        """The whole list with what is nearest to each wrong word."""
        assert self.choices is not None
        meant = [word if word in self.choices else nearest(word, self.choices) for word in words]
        return None if None in meant else ",".join(map(str, dict.fromkeys(meant)))

    def probes(self) -> "dict[str, list[str]]":
        assert self.choices is not None
        probes = super().probes()
        probes["valid"].append(",".join(self.choices))
        probes["invalid"] += [self.choices[0] + ",", ",", self.choices[0] + ", " + self.choices[-1]]
        return probes
