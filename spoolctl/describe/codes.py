"""Exit statuses, error codes and warnings as data, each code with a call that gives it."""

from ..contract.spec import Verb
from ..errors import ERRORS, EXIT_NOT_READY, EXIT_UNSUCCESSFUL, EXITS, SKIPPED, WARNINGS
from .schemas import errors_of, warnings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

# By code a call that is answered with it, and what must hold for that; tests run them.
EXAMPLES = {
    "INVALID_INPUT": ("spoolctl add --priority high -- true", ""),
    "MISSING_REQUIRED": ("spoolctl add", ""),
    "NOT_FOUND": ("spoolctl show 999999999", ""),
    "UNKNOWN_COMMAND": ("spoolctl stauts", ""),
    "UNKNOWN_FLAG": ("spoolctl add --prio 1 -- true", ""),
    "SAFETY_BLOCK": ("spoolctl prune --older-than 7d", ""),
    "DB_INVALID": ("spoolctl status --db /bin/sh", ""),
    "DB_READONLY": ("spoolctl cancel 7", "the directory of the database cannot be written"),
    "LOCKED": ("spoolctl cancel 7", "another program keeps the write lock"),
    "TIMEOUT": ("spoolctl wait 7 --timeout 1s", "job 7 is queued"),
    "DISK_FULL": ("spoolctl add -- true", "no room is left on the device"),
    "CONFLICT": ("spoolctl cancel 7", "job 7 is done"),
    "IDEMPOTENCY_CONFLICT": ("spoolctl add --key k -- false", "the active job of key k is another"),
    "DB_CREATED": ("spoolctl add -- true", "there is no database yet"),
    "KILL_ASYNC": ("spoolctl cancel 7 --running --yes", "the processes of job 7 cannot be ended in time"),
    "NO_ATTEMPTS_YET": ("spoolctl output 7", "job 7 has never run"),
    "NO_WORKER": ("spoolctl add -- true", "no live worker serves the lane"),
    "IDEMPOTENCY_METADATA_DIFFERS": ("spoolctl add --key k --note new -- true", "job k has no note"),
    "SHARED_PERMISSIONS": ("spoolctl work --once --allow-shared", "others may write the database"),
    "UNVERIFIABLE_OWNER": (
        "spoolctl retry 7 --force --unverified", "the worker of job 7 cannot be judged from here",
    ),
}  # fmt: skip

_NOTES = {
    EXIT_NOT_READY: "doctor answers so with ok true when something failed",
    EXIT_UNSUCCESSFUL: "ok is true and errors is empty",
}


def exits() -> "Json":
    found: "Json" = {}
    for status, (meaning, retryable) in EXITS.items():
        found[str(status)] = {"meaning": meaning, "retryable": retryable}
        if status in _NOTES:
            found[str(status)]["note"] = _NOTES[status]
    return found


def registry(specs: "dict[str, Verb]") -> "Json":
    """Every code with where it appears: `errors`, `warnings`, or a skipped job's code."""
    found: "Json" = {}
    for code in errors_of(specs):
        status, meaning = ERRORS[code]
        verbs = [name for name, spec in specs.items() if code in spec.errors]
        skipped = ["data.skipped"] if code in SKIPPED else []
        found[code] = {
            "appears_in": ["errors", *skipped],
            "summary": meaning,
            "exit_code": status,
            "retryable": EXITS[status][1] is True,
            **_example(code),
            "verbs": verbs,
        }
    for code in warnings_of(specs):
        found[code] = {
            "appears_in": ["warnings"],
            "summary": WARNINGS[code],
            "retryable": False,
            **_example(code),
            "verbs": [name for name, spec in specs.items() if code in spec.warnings],
        }
    return found


def _example(code: str) -> "Json":
    if code not in EXAMPLES:
        return {}  # nothing that a caller does gives INTERNAL
    command, situation = EXAMPLES[code]
    return {"example": command, "situation": situation or None}
