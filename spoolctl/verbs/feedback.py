"""feedback: how a job stands, why, and what to do next, in one call."""

from .. import clock
from ..contract import limits
from ..contract.shared import JOBS, QUEUE, STREAM, TAG
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.states import TERMINAL
from ..contract.types import Integer
from ..errors import SpoolctlError, invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "feedback",
    "the verdict on a job: state, reason, end of its output, next step",
    "The facts are those of the last attempt. remediation is the command to run next; it is null when there "
    f"is nothing to do. Several jobs, or a selector, give a list of at most {limits.FEEDBACK_MAX}.",
    args=(JOBS,),
    flags=(
        QUEUE,
        TAG,
        Flag(
            "--tail-bytes",
            Integer(1, limits.FEEDBACK_TAIL_MAX),
            limits.FEEDBACK_TAIL_DEFAULT,
            "so many bytes of the end of each stream",
        ),
        STREAM,
    ),
    exclusive=(("id", "tag"),),
    one_of=("id", "queue", "tag"),
    only_with_key=("queue",),
    examples=(
        ("spoolctl feedback 7", "what became of job 7"),
        ("spoolctl feedback key:nightly --json --tail-bytes 500", "the same as JSON, by key"),
        ("spoolctl feedback --tag run=42 --json", "of every job with a tag"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "DB_INVALID",
        "DB_READONLY", "LOCKED", "INTERNAL",
    ),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s
    from ._tails import shape

    one = s.obj(
        job_id=s.ID,
        state=s.JOB_STATE,
        terminal=s.BOOL,
        succeeded=s.nullable(s.BOOL),
        exit_code=s.EXIT_CODE,
        signal=s.nullable(s.STR),
        failure_reason=s.REASON,
        last_error=s.nullable(s.STR),
        attempts=s.COUNT,
        attempts_total=s.COUNT,
        latest_attempt_no=s.nullable(s.ID),
        duration_seconds=s.nullable(s.SECONDS),
        remediation=s.nullable(s.STR),
        streams=shape(),
    )
    return s.any_of(one, s.obj(jobs=s.arr(one)))


def run(args: Args, ctx: "Context") -> Result:
    from ..store import attempts, jobs, select
    from ._tails import tails

    refs: "list[tuple[str, object]]" = args.id
    select.refuse_mixture(SPEC.name, refs, args.queue)
    if len({ref for ref in refs if ref[0] == "id"}) > limits.FEEDBACK_MAX:
        raise _too_many(len(refs))
    db = ctx.reader()
    with db.read():
        found = [
            (row, attempts.latest(db, job_id))
            for job_id in _ids(db, args, refs)
            if (row := jobs.get(db, job_id)) is not None
        ]
        verdicts = [_verdict(ctx, db, row, attempt) for row, attempt in found]
    for verdict, (_, attempt) in zip(verdicts, found, strict=True):
        verdict["streams"] = tails(db.spool, attempt, int(args.tail_bytes))
        if not ctx.json and args.stream != "both":
            verdict["streams"] = {args.stream: verdict["streams"][args.stream]}
    if not select.single(refs):
        return Result({"jobs": verdicts})
    commands = [ctx.with_db(command) for command in _commands(ctx, db, found[0][0])]
    return Result(verdicts[0], [c for c in dict.fromkeys([verdicts[0]["remediation"], *commands]) if c])


def _ids(db: "Db", args: Args, refs: "list[tuple[str, object]]") -> "list[int]":
    if refs:
        from ..store import select

        ids = select.named(db, refs, args.queue)
    else:
        from ..store.filter import Filter, matching

        wanted = Filter(queue=args.queue, tags=args.tag)
        ids = matching(db, wanted, limits.FEEDBACK_MAX + 1)
    if len(ids) > limits.FEEDBACK_MAX:
        raise _too_many(len(ids))
    return ids


def _too_many(count: int) -> SpoolctlError:
    return invalid(
        f"more than {limits.FEEDBACK_MAX} jobs are asked for: name fewer; list and wait take any number",
        "spoolctl list",
        flag="ID", value=count, maximum=limits.FEEDBACK_MAX,
    )  # fmt: skip


def _verdict(ctx: "Context", db: "Db", row: "Row", attempt: "Row | None") -> "Row":
    state = row["state"]
    # A job that runs has no result yet; `last_*` then are those of the attempt before.
    ended = {} if state == "running" else row
    duration = None
    if attempt is not None and attempt["finished_at"] is not None:
        duration = round(max(0.0, attempt["finished_at"] - attempt["started_at"]), 3)
    remediation = _remediation(ctx, db, row)
    return {
        "job_id": row["id"],
        "state": state,
        "terminal": state in TERMINAL,
        "succeeded": state == "done" if state in TERMINAL else None,
        "exit_code": 0 if state == "done" else ended.get("last_exit_code"),
        "signal": ended.get("last_signal"),
        "failure_reason": ended.get("last_failure_reason"),
        "last_error": ended.get("last_error"),
        "attempts": row["attempts"],
        "attempts_total": row["attempt_no"],
        "latest_attempt_no": row["attempt_no"] or None,
        "duration_seconds": duration,
        "remediation": ctx.with_db(remediation) if remediation else None,
    }


def _remediation(ctx: "Context", db: "Db", row: "Row") -> "str | None":
    """The command to run next, by state (SPEC 3, feedback)."""
    from ..work import serving

    job_id, lane, kind = row["id"], str(row["queue"]), str(row["kind"])
    if row["state"] == "queued":
        if row["next_run_at"] > clock.now():
            return f"spoolctl show {job_id}"
        if serving.serves(db, lane, kind):
            return f"spoolctl wait {job_id}"
        # A payload is handed out, never run by this line.
        return f"spoolctl show {job_id}" if kind == "payload" else serving.work_line(ctx, lane, "--drain")
    if row["state"] == "running":
        return (
            serving.work_line(ctx, lane, "--drain")
            if _orphaned(db, row["owner"])
            else f"spoolctl wait {job_id}"
        )
    return f"spoolctl output {job_id}" if row["state"] == "dead" else None


def _orphaned(db: "Db", owner: object) -> bool:
    """Whether a running job's worker is proven dead, or not even known. Instance 0 is no worker: a lease
    of an outside consumer, which ends by its deadline."""
    from ..store import workers
    from ..work import identity

    if owner == 0:
        return False
    worker = workers.get(db, int(owner))  # type: ignore[call-overload]
    return worker is None or identity.liveness(db.spool, worker) == identity.DEAD


def _commands(ctx: "Context", db: "Db", row: "Row") -> "list[str]":
    """What fits the verdict, best first."""
    words = {
        "queued": ("wait", "show", "cancel"),
        "running": ("wait", "output"),
        "done": ("output",),
        "dead": ("output", "retry", "show"),
        "canceled": ("retry",),
    }
    commands = [f"spoolctl {verb} {row['id']}" for verb in words.get(str(row["state"]), ())]
    if row["state"] == "dead" and row["last_failure_reason"] == "timeout":
        from ..store import jobs
        from ._again import add_line

        longer = min(row["timeout"] * 2, limits.INT64_MAX)
        try:
            line = add_line(ctx, row, jobs.tags_of(db, row["id"]), timeout=longer, key=None)
            commands.insert(1, line)
        except ValueError:
            pass  # no line makes it again from here
    return commands


def text(data: "Row", view: "View") -> str:
    from ._verdict import verdict

    if "jobs" not in data:
        return verdict(data, view)
    return "\n".join(verdict(job, view) for job in data["jobs"]) or "no jobs\n"
