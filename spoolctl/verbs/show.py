"""show: everything that is known of one job."""

from ..contract.shared import JOB
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import LANE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "show",
    "show one job with its attempts and its history",
    "The values of --env are shown as they are stored.",
    args=(JOB,),
    only_with_key=("queue",),
    flags=(Flag("--queue", LANE, help="the lane in which a key:KEY is looked for", short="-q"),),
    examples=(
        ("spoolctl show 7", "job 7, its attempts and events"),
        ("spoolctl show key:nightly --json", "the newest job with the key, as JSON"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "DB_INVALID",
        "DB_READONLY", "LOCKED", "INTERNAL",
    ),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s
    from ..contract import states

    job = s.obj(
        **s.job_fields(),
        env=s.TAGS,
        captured_env=s.TAGS,
        backoff=s.BACKOFF,
        max_output_bytes=s.nullable(s.COUNT),
        keep_children=s.BOOL,
        cancel_requested_at=s.nullable(s.TIME),
        locked_by=s.nullable(s.STR),
        locked_pid=s.nullable(s.ID),
        locked_at=s.nullable(s.TIME),
        heartbeat_at=s.nullable(s.TIME),
        ending=s.ENDING,
    )
    attempt = s.obj(
        attempt_no=s.ID,
        state=s.ATTEMPT_STATE,
        worker_id=s.STR,
        worker_pid=s.nullable(s.ID),
        pid=s.nullable(s.ID),
        started_at=s.TIME,
        finished_at=s.nullable(s.TIME),
        exit_code=s.EXIT_CODE,
        signal=s.nullable(s.STR),
        error=s.nullable(s.STR),
        failure_reason=s.REASON,
        stdout_path=s.nullable(s.STR),
        stderr_path=s.nullable(s.STR),
        lease_expires_at=s.nullable(s.TIME),
    )
    event = s.obj(
        at=s.TIME, event=s.enum(*states.EVENTS), worker_id=s.nullable(s.STR), detail=s.nullable(s.STR)
    )
    return s.obj(job=job, attempts=s.arr(attempt), events=s.arr(event))


def run(args: Args, ctx: "Context") -> Result:
    from ..contract.limits import INT64_MAX
    from ..store import attempts, events, jobs, select

    select.refuse_mixture(SPEC.name, [args.id], args.queue)
    db = ctx.reader()
    with db.read():
        job_id = select.one(db, args.id, args.queue)
        row = jobs.get(db, job_id)
        assert row is not None
        tags = jobs.tags_of(db, job_id)
        tried = attempts.of_job(db, job_id)
        history = events.page(db, 0, INT64_MAX, job_id)
    answer: "Row" = {
        "job": {**jobs.to_job(row, tags), **_more(db, row, tried[-1] if tried else None)},
        "attempts": [attempts.to_attempt(db.spool, attempt) for attempt in tried],
        "events": [{name: event[name] for name in _EVENT} for event in history],
    }
    commands = [ctx.with_db(f"spoolctl {verb} {job_id}") for verb in _NEXT[str(row["state"])]]
    return Result(answer, commands)


_EVENT = ("at", "event", "worker_id", "detail")

# What one would do with a job in this state.
_NEXT = {
    "queued": ("wait", "cancel"),
    "running": ("wait", "output"),
    "done": ("output",),
    "dead": ("feedback", "retry"),
    "canceled": ("retry",),
    "failed": (),
}


def _more(db: "Db", row: "Row", last: "Row | None") -> "Row":
    """What `show` tells beyond the job of `list`; `last` is the latest attempt."""
    from ..store import attempts, jobs

    held = last if row["state"] == "running" else None
    return {
        "env": jobs.variables(row["env"]) or {},
        "captured_env": jobs.variables(row["captured_env"]) or {},
        "backoff": jobs.backoff(row),
        "max_output_bytes": row["max_output"],
        "keep_children": bool(row["keep_children"]),
        "cancel_requested_at": row["requested_at"] if row["request"] == "cancel" else None,
        "locked_by": held["worker_label"] if held else None,
        "locked_pid": held["worker_pid"] if held else None,
        "locked_at": held["started_at"] if held else None,
        "heartbeat_at": _heartbeat(db, row["owner"]) if held else None,
        "ending": attempts.ending(held) if held else None,
    }


def _heartbeat(db: "Db", instance: object) -> "float | None":
    """When the owner last touched its lock; null for one without."""
    import os

    from ..paths import raw
    from ..work.identity import lock_path

    try:
        return round(os.stat(raw(lock_path(db.spool, int(instance)))).st_mtime, 3)  # type: ignore[call-overload]
    except OSError:
        return None


def text(data: "Row", view: "View") -> str:
    from ._card import card

    return card(data, view)
