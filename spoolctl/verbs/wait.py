"""wait: block until jobs have settled. The set is fixed at the first look, and nothing is held asleep."""

from .. import clock
from ..contract import limits
from ..contract.shared import JOBS, POLL_INTERVAL, QUEUE, TAG
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import WAIT, Integer
from ..errors import EXIT_UNSUCCESSFUL, SpoolctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.awaited import Awaited
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "wait",
    "wait until jobs are done, dead or canceled",
    "The set of jobs is fixed at the first look: the ids, every job with the tags whatever its state, and "
    "for --queue and --all those that are queued or running. Exit 0: all are done; 6: one is dead, canceled "
    "or was pruned. With --any and --fail-fast the jobs that have settled decide.",
    args=(JOBS,),
    flags=(
        QUEUE,
        TAG,
        Flag("--all", help="every job that is queued or running"),
        Flag("--timeout", WAIT, help="give up after that time (exit 4)"),
        POLL_INTERVAL,
        Flag("--any", help="wait for the first that settles"),
        Flag("--fail-fast", help="wait no longer than for the first that is dead or canceled"),
        Flag(
            "--tail-bytes",
            Integer(1, limits.FEEDBACK_TAIL_MAX),
            help="show why jobs failed, with so much of the end of their output",
        ),
    ),
    one_of=("id", "queue", "tag", "all"),
    examples=(
        ("spoolctl wait 7", "until job 7 has settled"),
        ("spoolctl wait 12-511 --fail-fast --timeout 1h", "a whole batch, but not beyond its first failure"),
        ("spoolctl wait --tag run=42 --tail-bytes 2048 --json", "every job of a run, and why some failed"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "TIMEOUT", "SAFETY_BLOCK",
        "DB_INVALID", "DB_READONLY", "LOCKED", "INTERNAL",
    ),
    warnings=("NO_WORKER",),
    exits=(EXIT_UNSUCCESSFUL,),
    bounded_by={"": (("--timeout", "0.05"),)},
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s
    from ..contract import states
    from . import _tails

    job = s.obj(
        state=s.JOB_STATE,
        attempts=s.COUNT,
        last_exit_code=s.EXIT_CODE,
        last_error=s.nullable(s.STR),
        failure_reason_=s.REASON,
        streams_=_tails.shape(),
    )
    pruned = s.obj(state={"type": "null"})
    counts = s.obj(**{f"{state}_": s.COUNT for state in sorted(states.JOB_STATES)})
    return s.obj(all_succeeded=s.BOOL, counts=counts, jobs=s.table(s.any_of(job, pruned)))


def run(args: Args, ctx: "Context") -> Result:
    from ..store.awaited import Awaited
    from ._progress import Progress

    watch = None
    db = ctx.reader()
    awaited = Awaited(db, _meant(args, db))
    progress = Progress(ctx)
    deadline = None if args.timeout is None else ctx.started + float(args.timeout)
    warned = ctx.json
    try:
        while not _over(args, awaited):
            if not warned:
                warned = True
                for code, message in _unserved(ctx, awaited):
                    progress.say(f"warning {code}: {message}")
            left = None if deadline is None else deadline - clock.monotonic()
            if left is not None and left <= 0:
                raise _timeout(args, ctx, awaited)
            progress.show(_far(awaited))
            if watch is None:
                from ..watch import Watch

                watch = Watch(db.spool)
            pause = float(args.poll_interval)
            watch.begin() or watch.rest(pause if left is None else min(pause, left))
            awaited.look()
    finally:
        progress.clear()
        if watch is not None:
            watch.close()
    answer = _answer(args, db, awaited)
    commands = [ctx.with_db(command) for command in _next(awaited)]
    return Result(answer, commands, exit_code=0 if answer["all_succeeded"] else EXIT_UNSUCCESSFUL)


def _meant(args: Args, db: "Db") -> "list[int]":
    """The ids to wait for, in order. Raises NOT_FOUND for unknown ids, and for tags that no job has."""
    from ..contract.states import ACTIVE
    from ..store import select

    refs: "list[tuple[str, object]]" = args.id
    queue: "str | None" = args.queue
    found = dict.fromkeys(select.named(db, refs, queue))
    # Beside a key, --queue says in which lane to look for it.
    if args.tag:
        members = select.selected(db, queue, args.tag)
        if not members:
            words = [key if value is None else f"{key}={value}" for key, value in args.tag]
            raise SpoolctlError(
                "NOT_FOUND", f"no job has the tag {' and '.join(words)}", "spoolctl list", {"missing": words}
            )
        found.update(dict.fromkeys(members))
    elif args.all or (queue is not None and not select.by_key(refs)):
        found.update(dict.fromkeys(select.selected(db, queue, [], ACTIVE)))
    return list(found)


def _over(args: Args, awaited: "Awaited") -> bool:
    if not awaited.pending:
        return True
    return bool((args.any and (awaited.succeeded or awaited.failed)) or (args.fail_fast and awaited.failed))


def _unserved(ctx: "Context", awaited: "Awaited") -> "list[tuple[str, str]]":
    """NO_WORKER for each lane whose pending commands nobody alive runs or would take."""
    from ..store import workers
    from ..work import identity, serving

    lanes: "dict[str, bool]" = {}
    for lane, owner in sorted(awaited.holders(), key=str):
        if owner is not None:
            worker = workers.get(awaited.db, owner)
            if worker is not None and identity.liveness(awaited.db.spool, worker) != identity.DEAD:
                continue
        lanes.setdefault(lane, serving.serves(awaited.db, lane))
    return [serving.no_worker(ctx, lane) for lane, served in lanes.items() if not served]


def _timeout(args: Args, ctx: "Context", awaited: "Awaited") -> SpoolctlError:
    from ._repeat import call

    if ctx.json:
        ctx.warnings += _unserved(ctx, awaited)
    pending, settled = awaited.left(), awaited.settled_rows()
    total, number = len(awaited.ids), len(awaited.ids) - len(pending)
    over = _spans(list(settled)) if number == len(settled) else None
    # The same again for what is pending, or, where that is too long to write, just the same.
    spans = tuple((_spans(pending) or "").split())
    line = call(SPEC, args, without=("queue", "tag", "all") if spans else (), instead=spans)
    remediation = line or "spoolctl status"
    if number:
        remediation += f"  # settled: {over or number}"
    from ..terminal import counted

    have = "has" if len(pending) == 1 else "have"
    return SpoolctlError(
        "TIMEOUT",
        f"{len(pending)} of {counted(total, 'job')} {have} not settled within {args.timeout} s",
        remediation,
        {
            "settled": {str(job_id): _job(args, awaited.db, row) for job_id, row in settled.items()},
            "pending": pending,
        },
    )


def _spans(ids: "list[int]", most: int = 20) -> "str | None":
    """Ids as words that `wait` takes; None past `most` words."""
    from itertools import islice

    from ._repeat import spans

    words = list(islice(spans(sorted(ids)), most + 1))
    return " ".join(words) if len(words) <= most else None


def _answer(args: Args, db: "Db", awaited: "Awaited") -> "Row":
    rows = awaited.rows()
    return {
        "all_succeeded": not awaited.failed,
        "counts": _counts(awaited, rows),
        "jobs": {str(job_id): _job(args, db, row) for job_id, row in rows.items()},
    }


def _counts(awaited: "Awaited", rows: "dict[int, Row]") -> "dict[str, int]":
    """{state: n} of the states that occur; a pruned job has none."""
    found = {state: n for state, n in awaited.counts.items() if state is not None}
    for job_id in awaited.pending:
        state = str(rows[job_id]["state"])
        found[state] = found.get(state, 0) + 1
    return {state: found[state] for state in sorted(found)}


def _job(args: Args, db: "Db", row: "Row") -> "Row":
    if row["state"] is None:
        return {"state": None}
    job = {name: row[name] for name in ("state", "attempts", "last_exit_code", "last_error")}
    if args.tail_bytes is not None and row["state"] in ("dead", "canceled"):
        from ..store import attempts
        from ._tails import tails

        job["failure_reason"] = row["last_failure_reason"]
        last = attempts.latest(db, row["id"])
        job["streams"] = tails(db.spool, last, args.tail_bytes)
    return job


def _next(awaited: "Awaited") -> "list[str]":
    failed = [job_id for job_id, row in awaited.settled.items() if row["state"] in ("dead", "canceled")]
    if failed:
        return [f"spoolctl feedback {failed[0]}", f"spoolctl retry {failed[0]}"]
    if len(awaited.ids) == 1:
        return [f"spoolctl output {awaited.ids[0]}"]
    return []


def _far(awaited: "Awaited") -> str:
    total = len(awaited.ids)
    failed = f", {awaited.failed} failed" if awaited.failed else ""
    return f"waiting: {total - len(awaited.pending)} of {total} settled{failed}"


def text(data: "Row", view: "View") -> str:
    from ._outcome import outcome

    return outcome(data, view)
