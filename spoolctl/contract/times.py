"""Durations and timestamps: seconds in, seconds out (SPEC 2.4)."""

from . import limits
from .numbers import decimal, digits, finite, whole
from .values import BadValue, Type

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(Type):
    name = "duration"
    unit = "seconds"
    grammar = "<number>[s|m|h|d] or bare seconds"

    def __init__(
        self,
        maximum: int = limits.SECONDS_MAX,
        positive: bool = False,
        none: bool = False,
    ) -> None:
        self.minimum, self.maximum, self.above, self.none = 0, maximum, positive, none

    def parse(self, text: str) -> "int | float | None":
        """Seconds, whole ones as int."""
        if self.none and text == "none":
            return None
        unit = _UNITS.get(text[-1:], 0)
        value = decimal(text[:-1] if unit else text)
        if value is None:
            raise BadValue("must be a duration such as 90, 1.5h or 7d" + (", or none" if self.none else ""))
        return whole(self.bounded(value * (unit or 1)))

    def check(self, value: object) -> "int | float | None":
        if value is None and self.none:
            return None
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not finite(value):
            raise BadValue("must be a duration: seconds, or text such as 1.5h")
        return whole(self.bounded(value))

    def probes(self) -> "dict[str, list[str]]":
        high = self.maximum
        assert high is not None
        return {
            "valid": ["1", "0.5s", "1m", str(high)]
            + (["none"] if self.none else [])
            + ([] if self.above else ["0"]),
            "invalid": ["", "s", "x", "1S", "1 s", "1ms", "1w", "1e3", "nan", "inf", "1h30m", "+1", "1_0"],
            "low": ["-1", "-0.5s"] + (["0", "0s"] if self.above else []),
            "high": [str(int(high) + 1), f"{int(high) // 86_400 + 1}d", "9" * 400],
        }


class Timestamp(Type):
    name = "timestamp"
    unit = "epoch seconds"
    grammar = "epoch seconds, or YYYY-MM-DD[THH:MM[:SS[.f]]][Z|±HH[:MM]], with T or a blank"
    minimum, maximum = -limits.TIMESTAMP_MAX, limits.TIMESTAMP_MAX

    def parse(self, text: str) -> "int | float":
        """Epoch seconds. Without an offset the zone of this process counts."""
        value = decimal(text)
        if value is None:
            try:
                value = _iso_epoch(text)
            except (ValueError, OverflowError, OSError):
                raise BadValue(f"must be a timestamp: {self.grammar}") from None
        return whole(self.bounded(value))

    def check(self, value: object) -> "int | float":
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not finite(value):
            raise BadValue(f"must be a timestamp: {self.grammar}")
        return whole(self.bounded(value))

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["0", "-1.5", "2030-01-02", "2030-01-02T03:04", "2030-01-02 03:04:05.25Z",
                      "2030-01-02T03:04:05+02", "2030-01-02T03:04:05-02:30", str(self.maximum)],
            "invalid": ["", "x", "tomorrow", "2030-1-2", "2030-13-01", "2030-02-30", "2030-01-02T25:00",
                        "2030-01-02T03:04:05.", "2030-01-02T03", "20300102T0304", "2030-01-02T03:04z",
                        "2030-01-02T03:04+0200", "2030-01-02T03:04:60", "nan", "1e9", " 0", "2030-01-02Z0"],
            "low": [str(-limits.TIMESTAMP_MAX - 1), "-" + "9" * 400],
            "high": [str(limits.TIMESTAMP_MAX + 1), "9" * 400, "9999-12-31"],
        }  # fmt: skip


def _iso_epoch(text: str) -> float:
    """Epoch seconds of an ISO form. A gap of daylight saving moves forward, a fold takes the first."""
    import datetime

    def number(part: str, width: int) -> int:
        if len(part) != width or not digits(part):
            raise ValueError(part)
        return int(part)

    if len(text) < 10 or text[4] != "-" or text[7] != "-":
        raise ValueError(text)
    year, month, day = number(text[:4], 4), number(text[5:7], 2), number(text[8:10], 2)
    clock, offset = text[10:], None
    if clock[-1:] == "Z":
        clock, offset = clock[:-1], 0
    else:
        cut = max(clock.rfind("+"), clock.rfind("-"))
        if cut >= 0:
            zone, sign = clock[cut + 1 :], -1 if clock[cut] == "-" else 1
            clock = clock[:cut]
            hours, colon, minutes = zone.partition(":")
            offset = number(hours, 2) * 60 + (number(minutes, 2) if colon else 0)
            if offset >= 24 * 60 or (colon and int(minutes) > 59):
                raise ValueError(zone)
            offset *= sign
    hour = minute = second = micro = 0
    if clock:
        if clock[0] not in "T " or len(clock) < 6 or clock[3] != ":":
            raise ValueError(clock)
        hour, minute = number(clock[1:3], 2), number(clock[4:6], 2)
        rest = clock[6:]
        if rest:
            if rest[0] != ":":
                raise ValueError(rest)
            seconds, point, fraction = rest[1:].partition(".")
            second = number(seconds, 2)
            if point:
                if not digits(fraction) or len(fraction) > 18:
                    raise ValueError(fraction)
                micro = int(fraction[:6].ljust(6, "0"))
    moment = datetime.datetime(year, month, day, hour, minute, second, micro)
    if offset is not None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
        return moment.timestamp() - offset * 60
    return moment.timestamp()
