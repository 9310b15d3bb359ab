"""Numbers: integers, bytes, finite decimals (SPEC 2.4). ASCII digits only, and huge ones are no error."""

from . import limits
from .values import BadValue, Type

_DIGITS = frozenset("0123456789")


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
    unit = "bytes"
    grammar = "integer with an optional suffix k, M or G (1024-based)"

    def __init__(self, none: bool = True) -> None:
        super().__init__(1, limits.INT64_MAX, none)

    def parse(self, text: str) -> "int | None":
        if self.none and text == "none":
            return None
        unit = {"k": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:], 1)
        value = Integer(limits.INT64_MIN, limits.INT64_MAX)
        try:
            number = value.parse(text if unit == 1 else text[:-1])
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
