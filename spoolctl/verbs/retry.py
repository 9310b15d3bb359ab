"""retry: queue ended jobs again with a fresh budget; with --force a running one, after its tree is gone."""

from .. import clock
from ..contract.shared import JOBS, QUEUE, TAG, UNVERIFIED
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.states import RETRIABLE
from ..errors import SpoolctlError
from . import _change

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "retry",
    "queue dead or canceled jobs again",
    "The job is due now, with a fresh budget; key, tags, note and attempt numbers stay. With --now a delayed "
    "job is due at once. With --force a running attempt is ended, tree and all, before it is queued again.",
    args=(JOBS,),
    flags=(
        Flag("--all-dead", help="every dead job, of --queue and --tag where given"),
        QUEUE,
        TAG,
        Flag("--now", help="make a delayed or backing-off job due at once"),
        Flag("--force", help="end a running attempt first"),
        UNVERIFIED,
    ),
    exclusive=(("id", "all_dead"), ("all_dead", "force"), ("all_dead", "now")),
    needs={"unverified": ("force",), "tag": ("all_dead",)},
    one_of=("id", "all_dead"),
    only_with_key=("queue",),
    examples=(
        ("spoolctl retry 7", "once more, with a fresh budget"),
        ("spoolctl retry --all-dead --tag run=42", "everything of a run that died"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "CONFLICT",
        "IDEMPOTENCY_CONFLICT", "DB_INVALID", "DB_READONLY", "LOCKED", "DISK_FULL", "INTERNAL",
    ),
    warnings=("KILL_ASYNC", "UNVERIFIABLE_OWNER"),
    mutates=True,
    idempotent=False,
    interrupts=True,
    confirmation=("--force",),
    safety="a running job is ended only with --force",
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    return s.any_of(
        s.obj(job_id=s.ID, state=s.enum("queued", "running")),
        s.obj(matched=s.COUNT, retried=s.COUNT, job_ids=s.arr(s.ID), skipped=s.SKIPPED),
    )


def run(args: Args, ctx: "Context") -> Result:
    from ..store import select

    select.refuse_mixture(SPEC.name, args.id, args.queue)
    db = ctx.writer()
    ids, _ = _change.named_or_selected(args, db, ("dead",))
    if select.single(args.id):
        return _one(db, ids[0], args, ctx)
    return _many(db, ids, args, ctx)


def _try(db: "Db", ids: "list[int]", now_too: bool) -> "tuple[list[int], dict[int, SpoolctlError | None]]":
    """(ids queued again, {id: why not, None for a running one})."""
    from ..store import control

    done: "list[int]" = []
    left: "dict[int, SpoolctlError | None]" = {}

    def again(conn: "sqlite3.Connection", job_id: int, now: float) -> None:
        seen = control.watched(db, job_id)
        state = str(seen["state"]) if seen else "pruned"
        holder = control.key_holder(conn, job_id) if state in RETRIABLE else None
        if holder is not None:
            left[job_id] = _key_taken(job_id, holder)
        elif control.retry_ended(conn, job_id, now) or (now_too and control.hurry(conn, job_id, now)):
            done.append(job_id)
        elif state == "running":
            left[job_id] = None
        else:
            left[job_id] = _refused(db, job_id, state, now_too)

    _change.in_turn(db, ids, again)
    return done, left


def _key_taken(job_id: int, holder: int) -> SpoolctlError:
    return SpoolctlError(
        "IDEMPOTENCY_CONFLICT",
        f"the key of job {job_id} is held by active job {holder}",
        f"spoolctl show {holder}",
        {"job_id": holder, "fields": []},
    )


def _refused(db: "Db", job_id: int, state: str, now_too: bool) -> SpoolctlError:
    from ..store import jobs

    message = f"job {job_id} is {state}"
    row = jobs.get(db, job_id)
    remedy = f"spoolctl show {job_id}" if row is not None else "spoolctl list"
    if state == "queued" and row is not None:
        due = now_too or row["next_run_at"] <= clock.now()
        message += " already" + (", and due" if due else "")
        remedy = remedy if due else f"spoolctl retry {job_id} --now"
    return SpoolctlError("CONFLICT", message, remedy, {"job_id": job_id, "state": state})


def _done(ctx: "Context", db: "Db", job_id: int) -> SpoolctlError:
    """The CONFLICT of a job that is done, with the line that makes it again, where there is one."""
    from ..store import jobs
    from ._again import add_line

    row = jobs.get(db, job_id)
    message, remedy = f"job {job_id} is done already: add it again", f"spoolctl show {job_id}"
    if row is not None:
        try:
            remedy = add_line(ctx, row, jobs.tags_of(db, job_id))
        except ValueError as error:
            message = f"job {job_id} is done already, and no line adds it again: {error}"
    return SpoolctlError("CONFLICT", message, remedy, {"job_id": job_id, "state": "done"})


def _running(job_id: int) -> SpoolctlError:
    return SpoolctlError("SAFETY_BLOCK", f"job {job_id} is running", f"spoolctl retry {job_id} --force")


def _one(db: "Db", job_id: int, args: Args, ctx: "Context") -> Result:
    done, left = _try(db, [job_id], bool(args.now))
    commands = [ctx.with_db(f"spoolctl wait {job_id}")]
    if done:
        return Result({"job_id": job_id, "state": "queued"}, commands)
    refused = left[job_id]
    if refused is not None:
        raise _done(ctx, db, job_id) if refused.detail.get("state") == "done" else refused
    if not args.force:
        raise _running(job_id)
    pursuits, moved = _change.pursue(db, [job_id], "requeue", bool(args.unverified), ctx)
    if moved:
        return _one(db, job_id, args, ctx)
    conflict = _change.why_not(pursuits[0], "retry")
    if conflict is not None:
        raise conflict
    warnings = _change.unverified_warning(pursuits)
    if _change.pending(pursuits):
        warnings += _change.killing(pursuits, "it is queued again after that")
        return Result({"job_id": job_id, "state": "running"}, commands, warnings)
    return Result({"job_id": job_id, "state": "queued"}, commands, warnings)


def _many(db: "Db", ids: "list[int]", args: Args, ctx: "Context") -> Result:
    done, left = _try(db, ids, bool(args.now))
    skipped: "list[Row]" = []
    running = []
    for job_id, refused in left.items():
        if refused is not None:
            skipped.append({"job_id": job_id, "code": refused.code})
        elif not args.force:
            skipped.append({"job_id": job_id, "code": "SAFETY_BLOCK"})
        else:
            running.append(job_id)
    pursuits, moved = _change.pursue(db, running, "requeue", bool(args.unverified), ctx)
    skipped += [{"job_id": job_id, "code": "CONFLICT"} for job_id in moved]
    for one in pursuits:
        if _change.why_not(one, "retry") is not None:
            skipped.append({"job_id": one.job_id, "code": "CONFLICT"})
        else:
            done.append(one.job_id)
    if skipped and args.id and not done:
        from ._repeat import call

        forced = call(SPEC, args, ("--force",)) or "spoolctl list --state running"
        raise _change.none_changed(skipped, forced)
    warnings = _change.unverified_warning(pursuits)
    warnings += _change.killing(pursuits, "they are queued again after that")
    data = {
        "matched": len(ids),
        "retried": len(done),
        "job_ids": sorted(done),
        "skipped": sorted(skipped, key=lambda item: item["job_id"]),
    }
    return Result(data, warnings=warnings)


def text(data: "Row", view: "View") -> str:
    if "job_id" in data:
        return f"job {data['job_id']} is {'queued' if data['state'] == 'queued' else 'being ended'}\n"
    from ..terminal import counted

    skipped = f", {len(data['skipped'])} skipped" if data["skipped"] else ""
    head = f"{data['retried']} of {counted(data['matched'], 'job')} queued again{skipped}\n"
    return head + _change.skipped_lines(data["skipped"])
