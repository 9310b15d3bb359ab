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
)


def load(name: str):  # type: ignore[no-untyped-def]
    """The module of a verb. Raises UNKNOWN_COMMAND with the nearest name."""
    if name not in VERBS:
        raise SpoolctlError(
            "UNKNOWN_COMMAND",
            f"unknown verb {name[:200]!r}",
            "spoolctl --help",
            did_you_mean=nearest(name, VERBS),
        )
    module = "spoolctl.verbs." + name.replace("-", "_")
    return __import__(module, fromlist=["SPEC"])


def specs() -> "dict[str, object]":
    """Every verb's SPEC by name."""
    return {name: load(name).SPEC for name in VERBS}
