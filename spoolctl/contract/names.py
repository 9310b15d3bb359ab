"""Names: lanes, keys, tags, environment variables, workers, and ways to name a job (SPEC 2.4)."""

from . import limits
from .numbers import Integer, digits
from .values import BadValue, Type, clean, length

_LANE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_TAG_KEY = _LANE | {":"}
_TAG_GRAMMAR = "^[A-Za-z0-9_.:-]+$"
_ALNUM = _LANE - frozenset("._-")


class Lane(Type):
    name = "lane"
    words = "lanes"
    grammar = "^[A-Za-z0-9][A-Za-z0-9._-]*$"
    minimum, maximum = 1, limits.LANE_MAX
    of_length, unit = True, "characters"

    def parse(self, text: str) -> str:
        if not text or text[0] not in _ALNUM or not _LANE.issuperset(text):
            raise BadValue(f"must be a lane name: {self.grammar}")
        return length(text, self)

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["default", "a", "A.b-c_1", "x" * limits.LANE_MAX],
            "invalid": ["", "-a", ".a", "a b", "a/b", "é", "a\n"],
            "low": [],
            "high": ["x" * (limits.LANE_MAX + 1)],
        }


class Key(Type):
    name = "key"
    words = "keys"
    grammar = "text without control characters, trimmed"
    minimum, maximum = 1, limits.KEY_MAX
    of_length, unit = True, "characters"

    def parse(self, text: str) -> str:
        text = clean(text, "a key").strip()
        if not text.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
            raise BadValue("must not hold control characters")
        if not text:
            raise BadValue("must not be empty")
        return length(text, self)

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["nightly", " padded ", "é", "a b", "k" * limits.KEY_MAX],
            "invalid": ["", "  ", "a\nb", "a\x7fb", "\udcff"],
            "low": [],
            "high": ["k" * (limits.KEY_MAX + 1)],
        }


class Tag(Type):
    """`KEY=VALUE` as a pair; as a selector also `KEY` alone, a pair with None."""

    name = "tag"
    words = "tags"
    grammar = f"KEY=VALUE, key {_TAG_GRAMMAR}"
    unit = "characters"
    parts = {"key": (1, limits.TAG_KEY_MAX), "value": (0, limits.TAG_VALUE_MAX)}
    charsets = {"key": _TAG_GRAMMAR, "value": "any text without NUL"}

    def __init__(self, selector: bool = False) -> None:
        self.selector = selector
        if selector:
            self.grammar = f"KEY=VALUE or KEY, key {_TAG_GRAMMAR}"

    def parse(self, text: str) -> "tuple[str, str | None]":
        key, equals, value = clean(text, "a tag").partition("=")
        if not equals and not self.selector:
            raise BadValue("must be KEY=VALUE")
        return self.pair(key, value if equals else None)

    def pair(self, key: str, value: "str | None") -> "tuple[str, str | None]":
        if not key or not _TAG_KEY.issuperset(key):
            raise BadValue(f"tag keys are {_TAG_GRAMMAR}")
        if len(key) > limits.TAG_KEY_MAX:
            raise BadValue(
                f"tag keys have at most {limits.TAG_KEY_MAX} characters", maximum=limits.TAG_KEY_MAX
            )
        if value is not None and len(clean(value, "a tag")) > limits.TAG_VALUE_MAX:
            raise BadValue(
                f"tag values have at most {limits.TAG_VALUE_MAX} characters", maximum=limits.TAG_VALUE_MAX
            )
        return key, value

    def probes(self) -> "dict[str, list[str]]":
        key, value = limits.TAG_KEY_MAX, limits.TAG_VALUE_MAX
        return {
            "valid": ["a=b", "a=", "a=b=c", "a.b:c-d_e=é", "k" * key + "=" + "v" * value]
            + (["a"] if self.selector else []),
            "invalid": ["", "=", "=v", "a b=c", "é=1", "\udcff=1", "a=\udcff"]
            + ([] if self.selector else ["a"]),
            "low": [],
            "high": ["k" * (key + 1) + "=v", "k=" + "v" * (value + 1)],
        }


class EnvVar(Type):
    """`K=V` as a pair; `K` alone is a pair with None: copy the submitter's value."""

    name = "env"
    grammar = "K=V, or K to copy the submitter's value"
    unit = "bytes"
    parts = {"key": (1, limits.ENV_KEY_MAX), "value": (0, limits.ENV_VALUE_MAX)}
    charsets = {"key": "any text without = and NUL", "value": "any text without NUL"}

    def __init__(self, reserved: "tuple[str, ...]" = ()) -> None:
        self.reserved = reserved

    def parse(self, text: str) -> "tuple[str, str | None]":
        key, equals, value = text.partition("=")
        return self.pair(key, value if equals else None)

    def pair(self, key: str, value: "str | None") -> "tuple[str, str | None]":
        if not key or "=" in key or "\0" in key:
            raise BadValue("must be K=V or K, with a name before the =")
        if len(key) > limits.ENV_KEY_MAX:
            raise BadValue(f"names have at most {limits.ENV_KEY_MAX} characters", maximum=limits.ENV_KEY_MAX)
        if key in self.reserved:
            raise BadValue(f"{key} is set by the worker for every attempt")
        if value is not None:
            if "\0" in value:
                raise BadValue("values must not hold a NUL")
            if len(value.encode("utf-8", "surrogateescape")) > limits.ENV_VALUE_MAX:
                raise BadValue(
                    f"values have at most {limits.ENV_VALUE_MAX} bytes", maximum=limits.ENV_VALUE_MAX
                )
        return key, value

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["A=b", "A=", "A=b=c", "a.b=\udcff", "K" * limits.ENV_KEY_MAX + "=v"],
            "invalid": ["", "=v", *[name + "=1" for name in self.reserved]],
            "low": [],
            "high": ["K" * (limits.ENV_KEY_MAX + 1) + "=v", "K=" + "v" * (limits.ENV_VALUE_MAX + 1)],
        }


class WorkerId(Type):
    name = "worker_id"
    grammar = "printable text"
    minimum, maximum = 1, limits.WORKER_ID_MAX
    of_length, unit = True, "characters"

    def parse(self, text: str) -> str:
        if not text or not text.isprintable():
            raise BadValue("must be printable text")
        return length(text, self)

    def probes(self) -> "dict[str, list[str]]":
        return {
            "valid": ["w1", "a b", "é", "w" * limits.WORKER_ID_MAX],
            "invalid": ["", "a\nb", "\udcff"],
            "low": [],
            "high": ["w" * (limits.WORKER_ID_MAX + 1)],
        }


class VerbName(Type):
    """The name of a verb. Which ones there are only the registry knows: whoever takes it looks it up."""

    name = "verb"
    grammar = "the name of a verb"

    def parse(self, text: str) -> str:
        return clean(text, "a verb")

    def probes(self) -> "dict[str, list[str]]":
        return {"valid": ["add"], "invalid": ["\udcff"], "low": [], "high": []}


_JOB_ID = Integer(1, limits.INT64_MAX)


class JobRef(Type):
    """A job: `("id", n)`, `("key", text)`, or, where several are taken, `("range", (a, b))`."""

    name = "job_id"
    words = "jobs"
    minimum, maximum = 1, limits.INT64_MAX

    def __init__(self, ranges: bool = False) -> None:
        self.ranges = ranges
        self.grammar = "an id, or key:KEY" + (", or A-B" if ranges else "")

    def parse(self, text: str) -> "tuple[str, object]":
        if text.startswith("key:"):
            return "key", Key().parse(text[4:])
        if self.ranges and "-" in text[1:]:
            low, _, high = text.partition("-")
            if digits(low) and digits(high):
                a, b = _JOB_ID.parse(low), _JOB_ID.parse(high)
                if a > b:  # type: ignore[operator]
                    raise BadValue("a range runs from the lower id to the higher")
                return "range", (a, b)
        try:
            return "id", _JOB_ID.parse(text)
        except BadValue as bad:
            if bad.facts:
                raise
            raise BadValue(f"must be {self.grammar}") from None

    def probes(self) -> "dict[str, list[str]]":
        probes = _JOB_ID.probes()
        probes["valid"] += ["key:nightly"] + (["1-2"] if self.ranges else [])
        probes["invalid"] += ["key:", "key:a\nb", "2-1", "1-", "1-x"]
        return probes
