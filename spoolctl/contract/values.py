"""What a value type is, and the plain ones: numbers, text, choices (SPEC 2.4).

A type parses text, checks a Python value by the same rules, describes itself and lists its own
boundary probes. It raises `BadValue`; whoever knows the flag or field turns that into an
INVALID_INPUT that names it. Nothing here imports `re`: every call of the tool loads this module.
"""

from ..errors import nearest
from . import limits

_DIGITS = frozenset("0123456789")


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


def whole(value: "int | float") -> "int | float":
    """An integral float as int, so that integers stay integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value


def digits(text: str) -> bool:
    return bool(text) and _DIGITS.issuperset(text)


def decimal(text: str, exponent: bool = False) -> "int | float | None":
    """A finite decimal, or None when `text` is none. Huge values are clamped, never an error."""
    body = text[1:] if text[:1] == "-" else text
    mantissa, power = body, ""
    if exponent:
        mantissa, mark, power = body.replace("E", "e").partition("e")
        unsigned = power[1:] if power[:1] in ("-", "+") else power
        if mark and not (digits(unsigned) and len(unsigned) <= 6):
            return None
    before, point, after = mantissa.partition(".")
    if not digits(before + after) or (point and not after):
        return None
    if not point and not power:
        before = before.lstrip("0") or "0"
        number = int(before) if len(before) <= 30 else 10**30  # int() refuses 4300 digits and more
        return -number if text[:1] == "-" else number
    value = float(text)
    return value if abs(value) < 1e300 else (-(10**300) if value < 0 else 10**300)


class Type:
    """A value type. `minimum`/`maximum` are inclusive unless `above` (then minimum is exclusive)."""

    name = "text"
    grammar = "any text"
    minimum: "int | float | None" = None
    maximum: "int | float | None" = None
    above = False
    choices: "tuple[str, ...] | None" = None
    none = False  # whether the word `none` stands for "no limit"

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

    def probes(self) -> "dict[str, list[str]]":
        """Words a tester can feed in: `valid`, `invalid` (grammar), `low`, `high` (limits)."""
        return {"valid": ["a", "word"], "invalid": [], "low": [], "high": []}


class Integer(Type):
    name = "integer"
    grammar = "ASCII digits, optional -"

    def __init__(self, minimum: int, maximum: int, none: bool = False) -> None:
        self.minimum, self.maximum, self.none = minimum, maximum, none

    def parse(self, text: str) -> "int | None":
        if self.none and text == "none":
            return None
        if not digits(text[1:] if text[:1] == "-" else text):
            raise BadValue("must be an integer" + (" or none" if self.none else ""))
        value = decimal(text)
        self.bounded(value)  # type: ignore[arg-type]
        return value  # type: ignore[return-value]

    def check(self, value: object) -> "int | None":
        if value is None and self.none:
            return None
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValue("must be an integer" + (" or none" if self.none else ""))
        self.bounded(value)
        return value

    def probes(self) -> "dict[str, list[str]]":
        low, high = self.minimum, self.maximum
        assert low is not None and high is not None
        return {
            "valid": [str(low), str(high)] + (["none"] if self.none else []),
            "invalid": ["", "x", "1.5", "1_0", "0x1", " 1", "1 ", "nan", "1e3", "--1", "\u0661"],
            "low": [str(low - 1), "-999" if low >= 0 else str(low * 10), "-" + "9" * 5000],
            "high": [str(high + 1), "9" * 40, "9" * 5000],
        }


class Bytes(Integer):
    name = "bytes"
    grammar = "integer with an optional suffix k, M or G (1024-based)"

    def __init__(self, none: bool = True) -> None:
        super().__init__(1, limits.INT64_MAX, none)

    def parse(self, text: str) -> "int | None":
        unit = {"k": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:], 1)
        if unit == 1:
            return super().parse(text)
        value = Integer(limits.INT64_MIN, limits.INT64_MAX)
        try:
            number = value.parse(text[:-1])
        except BadValue as bad:
            if bad.facts:
                raise BadValue(
                    f"must be {self.range_text()}", minimum=self.minimum, maximum=self.maximum
                ) from None
            raise BadValue(f"must be an {self.grammar}" + (", or none" if self.none else "")) from None
        assert number is not None
        return self.bounded(number * unit)  # type: ignore[return-value]

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["1", "1k", "2M", "3G", str(self.maximum)] + (["none"] if self.none else []),
            "invalid": ["", "k", "1K", "1kb", "1.5k", "1 k", "x", "nan", "1_0"],
            "low": ["0", "0k", "-1", "-1k"],
            "high": [str(limits.INT64_MAX + 1), str(limits.INT64_MAX) + "k", "9" * 40 + "G"],
        }


class Float(Type):
    name = "float"
    grammar = "a finite decimal"

    def __init__(self, minimum: float, maximum: float) -> None:
        self.minimum, self.maximum = minimum, maximum

    def parse(self, text: str) -> "int | float":
        value = decimal(text, exponent=True)
        if value is None:
            raise BadValue("must be a finite decimal number")
        return whole(self.bounded(value))

    def check(self, value: object) -> "int | float":
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not finite(value):
            raise BadValue("must be a finite decimal number")
        return whole(self.bounded(value))

    def probes(self) -> "dict[str, list[str]]":
        low, high = self.minimum, self.maximum
        assert low is not None and high is not None
        return {
            "valid": [str(low), str(high), str((low + high) / 2)],
            "invalid": ["", "x", "nan", "inf", "-inf", "1_0", " 1", "1.", "0x1", "1e", "\u0661"],
            "low": [str(low - 1), "-1e300"],
            "high": [str(high + 1), "1e300", "1e999", "9" * 400],
        }


def finite(value: "int | float") -> bool:
    return value == value and value not in (float("inf"), float("-inf"))


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
    grammar = "text"
    minimum = 0

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

    name = "choice list"

    def __init__(self, *choices: str) -> None:
        super().__init__(*choices)
        self.grammar = f"a comma list of {'|'.join(choices)}"

    def parse(self, text: str) -> "list[str]":  # type: ignore[override]
        return list(dict.fromkeys(Choice.parse(self, word) for word in text.split(",")))

    def probes(self) -> "dict[str, list[str]]":
        assert self.choices is not None
        probes = super().probes()
        probes["valid"].append(",".join(self.choices))
        probes["invalid"] += [self.choices[0] + ",", ",", self.choices[0] + ", " + self.choices[-1]]
        return probes
