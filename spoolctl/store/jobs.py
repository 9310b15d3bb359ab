"""Job rows: adding one, looking one up, and turning a row into the job of the contract.

argv, env and payload are stored as ASCII JSON, in which a byte that is not UTF-8 is a lone surrogate;
a path is TEXT, or a BLOB when it is not UTF-8.
"""

from .. import jsontext
from ..contract import limits
from . import events
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from .db import Row

# What `add` decides; everything else has a default or is written by claim and settle.
ADDED = (
    "kind", "queue", "priority", "next_run_at", "argv", "payload", "cwd", "env", "captured_env", "timeout",
    "max_retries", "max_crashes", "backoff_base", "backoff_factor", "backoff_max", "backoff_jitter",
    "max_output", "keep_children", "key", "note", "asked", "created_at",
)  # fmt: skip

# What two jobs of one key are compared in: contract name -> columns. Values of env never show.
EXECUTION = {
    "argv": ("argv",),
    "payload": ("payload",),
    "cwd": ("cwd",),
    "env": ("env",),
    "timeout": ("timeout",),
    "max_retries": ("max_retries",),
    "max_crashes": ("max_crashes",),
    "backoff": ("backoff_base", "backoff_factor", "backoff_max", "backoff_jitter"),
    "priority": ("priority",),
    "max_output": ("max_output",),
    "keep_children": ("keep_children",),
}

INSERT_QUEUED = (
    f"INSERT INTO jobs (state, {', '.join(ADDED)}) VALUES ('queued', {', '.join(':' + c for c in ADDED)})"
)
INSERT_TAG = "INSERT INTO job_tags (job_id, key, value) VALUES (:job_id, :key, :value)"

# The columns of a whole row, in the order of `Row`.
COLUMNS = (
    "id", "state", *ADDED, "started_at", "finished_at", "attempts", "crashes", "attempt_no", "owner",
    "request", "request_detail", "requested_at", "request_seen_at", "last_exit_code", "last_signal",
    "last_error", "last_failure_reason",
)  # fmt: skip
SELECT = f"SELECT {', '.join(COLUMNS)} FROM jobs"

BY_ID = f"{SELECT} WHERE id = :id"
ACTIVE_BY_KEY = f"{SELECT} WHERE queue = :queue AND key = :key AND state IN ('queued', 'running')"
KEPT_BY_KEY = f"{SELECT} WHERE key = :key AND queue = :queue ORDER BY id DESC LIMIT 1"
NEWEST_ID_BY_KEY = "SELECT max(id) FROM jobs WHERE key = :key"
NEWEST_ID_BY_KEY_IN_LANE = "SELECT max(id) FROM jobs WHERE key = :key AND queue = :queue"
TAGS_OF = "SELECT key, value FROM job_tags WHERE job_id = :id ORDER BY key"


def stored(path: "str | None") -> "str | bytes | None":
    """A path as it is stored: text, or its bytes when they are not UTF-8."""
    if path is None:
        return None
    try:
        path.encode()
        return path
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogateescape")


def loaded(value: object) -> "str | None":
    """A stored path in its inside form."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return None if value is None else str(value)


def words(argv: object) -> "list[str] | None":
    """A stored argv as words; None for one that cannot be read (a damaged row hides no other)."""
    if not isinstance(argv, str):
        return None
    try:
        value = jsontext.loads(argv)
    except ValueError:
        return None
    return value if isinstance(value, list) and all(isinstance(w, str) for w in value) else None


def variables(env: object) -> "dict[str, str] | None":
    """Stored environment variables; {} for none, None for what cannot be read."""
    if env is None:
        return {}
    try:
        value = jsontext.loads(env) if isinstance(env, str) else None
    except ValueError:
        return None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return None
    return value


def insert(conn: "sqlite3.Connection", row: "Row", tags: "dict[str, str]") -> int:
    """Add a queued job with its tags and event. `row` has the columns ADDED. Returns its id."""
    cursor = conn.execute(INSERT_QUEUED, row)
    job_id = int(cursor.lastrowid or 0)
    for key, value in tags.items():
        conn.execute(INSERT_TAG, {"job_id": job_id, "key": key, "value": value})
    events.append(conn, job_id, row["created_at"], "added")
    return job_id


def _row(values: "tuple[Any, ...] | None") -> "Row | None":
    return dict(zip(COLUMNS, values)) if values is not None else None


def get(db: Db, job_id: int) -> "Row | None":
    """The whole row of a job."""
    return _row(db.one(BY_ID, {"id": job_id}))


def active_by_key(db: Db, queue: str, key: str) -> "Row | None":
    return _row(db.one(ACTIVE_BY_KEY, {"queue": queue, "key": key}))


def kept_by_key(db: Db, queue: str, key: str) -> "Row | None":
    """The newest job with the key in the lane, whatever its state."""
    return _row(db.one(KEPT_BY_KEY, {"queue": queue, "key": key}))


def newest_id_by_key(db: Db, key: str, queue: "str | None" = None) -> "int | None":
    found = db.one(
        NEWEST_ID_BY_KEY if queue is None else NEWEST_ID_BY_KEY_IN_LANE, {"key": key, "queue": queue}
    )
    return int(found[0]) if found and found[0] is not None else None


def tags_of(db: Db, job_id: int) -> "dict[str, str]":
    return {str(key): str(value) for key, value in db.all(TAGS_OF, {"id": job_id})}


def backoff(row: "Row") -> "Row":
    return {name: row[f"backoff_{name}"] for name in ("base", "factor", "max", "jitter")}


def to_job(row: "Row", tags: "dict[str, str]") -> "Row":
    """The job of `list` and `show` (SPEC 3) from a whole row."""
    job: "Row" = {"id": row["id"], "argv": None}
    if row["kind"] == "command":
        job["argv"] = words(row["argv"]) or [str(row["argv"])]
    else:
        try:
            job["payload"] = jsontext.loads(str(row["payload"]))
        except ValueError:
            job["payload"] = str(row["payload"])
    for name in ("state", "attempts", "crashes", "max_retries", "max_crashes"):
        job[name] = row[name]
    job["timeout_seconds"] = row["timeout"]
    for name in ("created_at", "started_at", "finished_at", "next_run_at", "priority", "queue"):
        job[name] = row[name]
    job["cwd"] = loaded(row["cwd"])
    for name in ("last_exit_code", "last_signal", "last_error", "last_failure_reason"):
        job[name] = row[name]
    job["idempotency_key"] = row["key"]
    job["tags"] = tags
    job["note"] = row["note"]
    return job


def command_text(row: "Row") -> str:
    """The job's command in one line: words joined by a blank, controls escaped, cut (SPEC 3, status)."""
    from ..terminal import cut, escaped

    if row["kind"] == "command":
        argv = words(row["argv"])
        text = " ".join(argv) if argv is not None else str(row["argv"])
    else:
        text = str(row["payload"])
    return cut(escaped(text[:400]), limits.COMMAND_SHOWN)
