"""Small words for JSON Schema 2020-12, strict by construction: the shape of every `data`.

`obj(a=…, b_=…)`: a trailing `_` marks a key that may be absent. Loaded only where a schema is asked for.
"""

from ..errors import SKIPPED as _SKIPPED
from . import states

Schema = "dict[str, object]"

STR = {"type": "string"}
BOOL = {"type": "boolean"}
INT = {"type": "integer"}
COUNT = {"type": "integer", "minimum": 0}
ID = {"type": "integer", "minimum": 1}
NUM = {"type": "number"}
TIME = {"type": "number", "description": "epoch seconds"}
SECONDS = {"type": "number", "minimum": 0, "description": "seconds"}
_STATUS = {"type": "integer", "description": "negative: ended by the signal of that number"}
ANY: "dict[str, object]" = {}


def obj(**fields: object) -> "dict[str, object]":
    """A strict object; a key spelled with a trailing `_` is optional."""
    properties = {key.rstrip("_"): value for key, value in fields.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in fields if not key.endswith("_")],
        "additionalProperties": False,
    }


def arr(items: object) -> "dict[str, object]":
    return {"type": "array", "items": items}


def table(values: object) -> "dict[str, object]":
    """An object with any keys and values of one shape."""
    return {"type": "object", "additionalProperties": values}


def nullable(shape: object) -> "dict[str, object]":
    return {"anyOf": [shape, {"type": "null"}]}


def enum(*words: str) -> "dict[str, object]":
    return {"type": "string", "enum": list(words)}


def any_of(*shapes: object) -> "dict[str, object]":
    return {"anyOf": list(shapes)}


EXIT_CODE = nullable(_STATUS)
JOB_STATE = enum(*states.JOB_STATES)
ATTEMPT_STATE = enum(*states.ATTEMPT_STATES)
REASON = nullable(enum(*states.REASONS))
COUNTS = obj(**dict.fromkeys(sorted(states.JOB_STATES), COUNT))
TAGS = table(STR)
BACKOFF = obj(base=SECONDS, factor=NUM, max=SECONDS, jitter=NUM)
SKIPPED = arr(obj(job_id=ID, code=enum(*_SKIPPED)))
ENDING = nullable(obj(since=TIME, pids=arr(ID), why=enum("not_permitted", "uninterruptible")))


def job_fields() -> "dict[str, object]":
    """The job of `list` (SPEC 3), as fields of `obj`."""
    return {
        "id": ID,
        "argv": nullable(arr(STR)),
        "payload_": ANY,
        "state": JOB_STATE,
        "attempts": COUNT,
        "crashes": COUNT,
        "max_retries": COUNT,
        "max_crashes": nullable(COUNT),
        "timeout_seconds": nullable(SECONDS),
        "created_at": TIME,
        "started_at": nullable(TIME),
        "finished_at": nullable(TIME),
        "next_run_at": nullable(TIME),
        "priority": INT,
        "queue": STR,
        "cwd": nullable(STR),
        "last_exit_code": EXIT_CODE,
        "last_signal": nullable(STR),
        "last_error": nullable(STR),
        "last_failure_reason": REASON,
        "idempotency_key": nullable(STR),
        "tags": TAGS,
        "note": nullable(STR),
    }
