"""The verbs in display order, and how to load one. A new verb is one module and one line here."""

from .errors import SpoolctlError, nearest

VERBS = (
    "add",
    "work",
    "wait",
    "status",
    "list",
    "show",
    "feedback",
    "output",
    "events",
    "retry",
    "cancel",
    "prune",
    "config-show",
    "config-validate",
    "doctor",
    "brief",
    "robot-docs",
    "capabilities",
    "schema",
    "completion",
)

_EXTRA = ("meta", "streams")  # functions that a verb's module may have beside data()


def load(name: str):  # type: ignore[no-untyped-def]
    """The module of a verb. Raises UNKNOWN_COMMAND with the nearest name."""
    if name not in VERBS:
        meant = nearest(name, VERBS)
        raise SpoolctlError(
            "UNKNOWN_COMMAND",
            f"unknown verb {name[:200]!r}",
            f"spoolctl {meant} --help" if meant else "spoolctl --help",
            did_you_mean=meant,
        )
    module = "spoolctl.verbs." + name.replace("-", "_")
    return __import__(module, fromlist=["SPEC"])


def shapes() -> "dict[str, dict[str, object]]":
    """By verb the shapes of its answers: `data`, the keys it adds to `meta`, and its `streams`."""
    found: "dict[str, dict[str, object]]" = {}
    for name in VERBS:
        module = load(name)
        optional = {part: getattr(module, part)() if hasattr(module, part) else {} for part in _EXTRA}
        found[name] = {"data": module.data(), **optional}
    return found


def specs() -> "dict[str, object]":
    """Every verb's SPEC by name."""
    return {name: load(name).SPEC for name in VERBS}
