"""Every limit by name: of values, from their types; of calls and answers, from `contract/limits.py`."""

from ..contract import limits, types
from ..contract.addflags import FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

# name: (type, what it is of)
_VALUES: "tuple[tuple[str, types.Type, str], ...]" = (
    ("job_id", types.JOB_ID, "an id of a job, an event or an attempt"),
    ("lane", types.LANE, "the name of a lane"),
    ("key", types.KEY, "a key, trimmed"),
    ("worker_id", types.WorkerId(), "the name of a worker"),
    ("path", types.PATH, "a path"),
    ("timestamp", types.TIMESTAMP, "a moment"),
    ("duration", types.Duration(), "a length of time that no flag bounds further"),
    ("poll_interval", types.POLL, "--poll-interval"),
    ("wait", types.WAIT, "how long a call may wait"),
)

# name: (type, minimum, maximum, what it is of)
_COUNTS: "tuple[tuple[str, str, int, int, str], ...]" = (
    ("tags_per_job", "count", 0, limits.TAGS_PER_JOB, "tags of one job"),
    ("from_jobs", "count", 0, limits.FROM_MAX, "jobs of one add --from"),
    ("from_line", "bytes", 0, limits.LINE_MAX, "one line of add --from"),
    ("from_job_ids", "count", 0, limits.FROM_IDS_MAX, "job_ids of add --from; null above it"),
    ("list_page", "count", 1, limits.LIST_MAX, "jobs of one page of list"),
    ("events_page", "count", 1, limits.EVENTS_MAX, "events of one page"),
    ("status_rows", "count", 1, limits.STATUS_MAX, "entries of each list of status"),
    ("scheduled_exact", "count", 0, limits.SCHEDULED_CAP, "scheduled jobs that status counts exactly"),
    ("wait_jobs", "count", 0, limits.WAIT_JOBS_MAX, "jobs that wait shows; above it only those not done"),
    ("feedback_jobs", "count", 1, limits.FEEDBACK_MAX, "jobs of one feedback"),
    ("output_preview", "bytes", 0, limits.PREVIEW_BYTES, "the preview of output without --tail-bytes"),
    ("command_shown", "characters", 0, limits.COMMAND_SHOWN, "the command in status; cut with ..."),
    ("error_text", "characters", 0, limits.ERROR_MAX, "the error of an attempt"),
)


def table() -> "Json":
    """{name: {type, minimum, maximum, unbounded, unit, summary, charset?}}."""
    found: "Json" = {}
    for name, kind, summary in _VALUES:
        found[name] = _value(kind, summary)
    for flag in FLAGS:  # what describes a job
        if flag.type is None or flag.type.choices or flag.dest in found:
            continue
        if flag.type.parts:
            charsets = flag.type.charsets or {}
            for part, (low, high) in flag.type.parts.items():
                row = _row("text", low, high, flag.type.unit, f"{part} of {flag.name}")
                found[f"{flag.type.name}_{part}"] = {**row, "charset": charsets[part]}
        elif flag.type.name not in found or flag.type.name == "duration":
            found[flag.dest] = _value(flag.type, flag.name)
    for name, kind_name, low, high, summary in _COUNTS:
        found[name] = _row(kind_name, low, high, None, summary)
    return found


def _value(kind: types.Type, summary: str) -> "Json":
    found = _row(kind.name, kind.minimum, kind.maximum, kind.unit, summary)
    if kind.above:
        found["exclusive_minimum"] = True
    if kind.of_length:
        found["charset"] = kind.grammar
    return found


def _row(kind: str, low: object, high: object, unit: object, summary: str) -> "Json":
    return {
        "type": kind,
        "minimum": low,
        "maximum": high,
        "unbounded": high is None,
        "unit": unit,
        "summary": summary,
    }
