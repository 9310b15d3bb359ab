"""cancel: a queued job at once; a running one with its whole tree, when that is confirmed."""

from ..contract.shared import JOBS, QUEUE, TAG, UNVERIFIED, YES
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.states import ACTIVE
from ..contract.types import Choice
from ..errors import SpoolctlError
from . import _change

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "cancel",
    "cancel jobs",
    "A queued job is canceled at once and never runs. A running one needs --running --yes: its worker ends "
    "the whole process tree, and only then the job is canceled. The call waits for that up to the grace and "
    "two seconds.",
    args=(JOBS,),
    flags=(
        QUEUE,
        TAG,
        Flag("--state", Choice(*ACTIVE), help="only jobs in this state"),
        Flag("--running", help="running jobs too; needs --yes"),
        YES,
        UNVERIFIED,
    ),
    exclusive=(("id", "state"), ("id", "tag")),
    one_of=("id", "queue", "tag", "state"),
    only_with_key=("queue",),
    examples=(
        ("spoolctl cancel 7", "before it starts"),
        ("spoolctl cancel 7 --running --yes", "also when it runs"),
        ("spoolctl cancel --tag run=42", "every queued job with the tag"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "CONFLICT",
        "DB_INVALID", "DB_READONLY", "LOCKED", "DISK_FULL", "INTERNAL",
    ),
    warnings=("KILL_ASYNC", "UNVERIFIABLE_OWNER"),
    mutates=True,
    destructive=True,
    idempotent=False,
    interrupts=True,
    confirmation=("--running", "--yes"),
    safety="a running job is canceled only with --running --yes",
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    state = s.enum("canceled", "running")
    one = s.obj(job_id=s.ID, state=state, was_running=s.BOOL, cancel_requested=s.BOOL)
    return s.any_of(
        one, s.obj(matched=s.COUNT, canceled=s.COUNT, pending=s.COUNT, job_ids=s.arr(s.ID), skipped=s.SKIPPED)
    )


def run(args: Args, ctx: "Context") -> Result:
    from ..store import select

    select.refuse_mixture(SPEC.name, args.id, args.queue)
    running = bool(args.running and args.yes)
    if (args.running or args.state == "running") and not running:
        raise SpoolctlError("SAFETY_BLOCK", "ending running commands needs --running --yes", _confirmed(args))
    db = ctx.writer()
    states: "tuple[str, ...]" = (str(args.state),) if args.state else ACTIVE if running else ("queued",)
    ids, selected = _change.named_or_selected(args, db, states)
    if select.single(args.id):
        return _one(db, ids[0], running, bool(args.unverified), ctx)
    return _many(db, ids, selected, running, args, ctx)


def _confirmed(args: Args) -> str:
    """The same call with its confirmation; where no line holds it, the jobs that need one."""
    from ._repeat import call

    line = call(SPEC, args, ("--running", "--yes"), without=("running", "yes"))
    return line or "spoolctl list --state running"


def _at_once(db: "Db", ids: "list[int]") -> "list[int]":
    """Cancel those that are queued; the ids that were."""
    from ..store import control

    done: "list[int]" = []

    def cancel(conn: "sqlite3.Connection", job_id: int, now: float) -> None:
        if control.cancel_queued(conn, job_id, now):
            done.append(job_id)

    _change.in_turn(db, ids, cancel)
    return done


def _one(db: "Db", job_id: int, running: bool, unverified: bool, ctx: "Context") -> Result:
    if _at_once(db, [job_id]):
        return _answer(job_id, "canceled", False, False, ctx)
    state = _change.state_of(db, job_id)
    if state != "running":
        raise _ended(job_id, state)
    if not running:
        confirmed = f"spoolctl cancel {job_id} --running --yes" + (" --unverified" if unverified else "")
        raise SpoolctlError("SAFETY_BLOCK", f"job {job_id} is running", confirmed)
    pursuits, moved = _change.pursue(db, [job_id], "cancel", unverified, ctx)
    if moved:
        return _one(db, job_id, running, unverified, ctx)
    refused = _change.why_not(pursuits[0], "cancel")
    if refused is not None:
        raise refused
    warnings = _change.unverified_warning(pursuits)
    if _change.pending(pursuits):
        warnings += _change.killing(pursuits, f"spoolctl wait {job_id} follows it")
        return _answer(job_id, "running", True, True, ctx, warnings)
    return _answer(job_id, "canceled", True, True, ctx, warnings)


def _answer(
    job_id: int, state: str, was_running: bool, requested: bool, ctx: "Context",
    warnings: "list[tuple[str, str]] | None" = None,
) -> Result:  # fmt: skip
    data = {"job_id": job_id, "state": state, "was_running": was_running, "cancel_requested": requested}
    follow = "wait" if state == "running" else "retry"
    return Result(data, [ctx.with_db(f"spoolctl {follow} {job_id}")], warnings)


def _ended(job_id: int, state: str) -> SpoolctlError:
    remedies = {
        "done": f"spoolctl feedback {job_id}",
        "dead": f"spoolctl feedback {job_id}",
        "canceled": f"spoolctl retry {job_id}",
    }
    return SpoolctlError(
        "CONFLICT",
        f"job {job_id} is {state} already",
        remedies.get(state, "spoolctl list"),
        {"job_id": job_id, "state": state},
    )


def _many(db: "Db", ids: "list[int]", selected: bool, running: bool, args: Args, ctx: "Context") -> Result:
    canceled = _at_once(db, ids)
    at_once = set(canceled)
    skipped: "list[Row]" = []
    candidates = []
    for job_id in ids:
        if job_id in at_once:
            continue
        if _change.state_of(db, job_id) != "running":
            skipped.append({"job_id": job_id, "code": "CONFLICT"})
        elif not running:
            skipped.append({"job_id": job_id, "code": "SAFETY_BLOCK"})
        else:
            candidates.append(job_id)
    pursuits, moved = _change.pursue(db, candidates, "cancel", bool(args.unverified), ctx)
    again = set(_at_once(db, moved))  # queued again in between
    canceled += again
    skipped += [{"job_id": job_id, "code": "CONFLICT"} for job_id in moved if job_id not in again]
    pending = _change.pending(pursuits)
    for one in pursuits:
        if _change.why_not(one, "cancel") is not None:
            skipped.append({"job_id": one.job_id, "code": "CONFLICT"})
        elif one.job_id not in pending:
            canceled.append(one.job_id)
    if skipped and not selected and not canceled and not pending:
        raise _change.none_changed(skipped, _confirmed(args))
    warnings = _change.unverified_warning(pursuits) + _change.killing(pursuits, "spoolctl wait follows them")
    data = {
        "matched": len(ids),
        "canceled": len(canceled),
        "pending": len(pending),
        "job_ids": sorted(canceled + pending),
        "skipped": sorted(skipped, key=lambda item: item["job_id"]),
    }
    return Result(data, warnings=warnings)


def text(data: "Row", view: "View") -> str:
    if "job_id" in data:
        if data["state"] == "running":
            return f"job {data['job_id']} is being ended\n"
        return f"job {data['job_id']} canceled\n"
    from ..terminal import counted

    pending = f", {data['pending']} still being ended" if data["pending"] else ""
    skipped = f", {len(data['skipped'])} skipped" if data["skipped"] else ""
    head = f"{data['canceled']} of {counted(data['matched'], 'job')} canceled{pending}{skipped}\n"
    return head + _change.skipped_lines(data["skipped"])
