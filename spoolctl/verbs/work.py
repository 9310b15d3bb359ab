"""work: run the jobs of a lane."""

from ..contract import limits
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import LANE, POLL, Duration, Integer, WorkerId
from ..errors import EXIT_UNSUCCESSFUL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..paths import Spool
    from ..store.db import Row
    from ..terminal import View
    from ..work.shift import Options, Shift

_COUNT = Integer(1, limits.CONCURRENCY_MAX)

SPEC = Verb(
    "work",
    "run jobs of a lane",
    "Claims jobs one after another and runs them, until it is told to stop: the first TERM, INT or HUP "
    "lets what runs finish, the second ends it and queues it again. Any number of workers may run side "
    "by side; each also brings back the jobs of workers that died.",
    flags=(
        Flag("--once", help="run at most one job, then leave"),
        Flag("--drain", help="leave when the lane has settled"),
        Flag("--queue", LANE, "default", "the lane", short="-q", config="queue"),
        Flag("--slots", _COUNT, help="most running jobs of the lane, all workers together"),
        Flag("--concurrency", _COUNT, 1, "jobs at once in this worker", short="-j"),
        Flag("--max-jobs", Integer(1, limits.INT64_MAX), help="leave after this many attempts"),
        Flag("--idle-timeout", Duration(limits.WAIT_MAX), help="leave after this long with nothing to run"),
        Flag("--poll-interval", POLL, 1, "upper bound of a sleep between two looks"),
        Flag("--worker-id", WorkerId(), help="its name in status and events; default HOST-PID"),
        Flag("--grace", Duration(limits.WAIT_MAX), limits.GRACE, "from TERM to KILL"),
        Flag("--strict", help="exit 6 when a job it ran ended dead"),
        Flag("--allow-shared", help="work although others may write the queue"),
    ),
    exclusive=(("once", "drain"), ("once", "concurrency"), ("once", "max_jobs"), ("once", "idle_timeout")),
    examples=(
        ("spoolctl work", "run jobs as they come, until stopped"),
        ("spoolctl work --drain -j 4", "run what is there, four at once, then leave"),
        ("spoolctl work --once --json", "run one job and say how it went"),
    ),
    errors=(
        "INVALID_INPUT", "UNKNOWN_FLAG", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY", "LOCKED", "DISK_FULL",
        "INTERNAL",
    ),
    warnings=("DB_CREATED", "SHARED_PERMISSIONS"),
    exits=(EXIT_UNSUCCESSFUL,),
    mutates=True,
    idempotent=False,
    bounded_by={"": (("--once",), ("--drain",), ("--idle-timeout", "0"))},
    confirmation=("--allow-shared",),
    safety="refuses a queue that everybody may write or that belongs to somebody else, who could run "
    "commands as you; --allow-shared accepts it",
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    results = s.enum("succeeded", "failed", "timed_out", "canceled", "interrupted", "lost")
    return s.any_of(
        s.obj(claimed={"const": False}),
        s.obj(
            claimed={"const": True},
            job_id=s.ID,
            attempt_no=s.ID,
            result=results,
            job_state=s.nullable(s.JOB_STATE),
        ),
        s.obj(
            drained=s.BOOL,
            executed=s.COUNT,
            succeeded=s.COUNT,
            failed=s.COUNT,
            dead=s.COUNT,
            unsettled=s.arr(s.ID),
        ),
        s.obj(stopped={"const": True}, executed=s.COUNT),
    )


def run(args: Args, ctx: "Context") -> Result:
    from ..store.place import check_filesystem, check_shared
    from ..work import loop
    from ..work.shift import Shift
    from ._progress import Progress

    options = _options(args, ctx)
    spool = ctx.spool()
    check_filesystem(spool, file_mount=True)
    warnings = check_shared(spool, bool(args.allow_shared), lambda: _is_there(spool))
    # An empty lane writes nothing: only a worker that stays makes a database to wait on.
    db = ctx.writer(create=not (args.once or args.drain))
    progress = Progress(ctx)
    if not ctx.json:  # it may run for days: say it now
        for code, message in ctx.warnings + warnings:
            progress.say(f"warning {code}: {message}")
        ctx.warnings, warnings = [], []

    def say(line: str) -> bool:
        said = progress.say(line)
        if options.drain and progress.on:
            from ..store import counts

            waiting = counts.by_lane(db)[1].get((options.queue, options.kind), 0)
            progress.show(f"{tally.executed} run, {tally.failed} failed, {waiting} to go")
        return said

    shift = Shift(db, options, ctx.environ, say)
    tally = shift.tally
    try:
        loop.run(shift)
    finally:
        progress.clear()
    failed = bool(args.strict) and tally.dead > 0
    return Result(_answer(shift), warnings=warnings, exit_code=EXIT_UNSUCCESSFUL if failed else 0)


def _is_there(spool: "Spool") -> bool:
    """Whether there is a queue. Raises DB_INVALID for what is none."""
    from ..store.open import open_reader

    db = open_reader(spool)
    db.close()
    return db.exists


def _options(args: Args, ctx: "Context") -> "Options":
    import os

    from ..work.shift import Options

    return Options(
        queue=str(args.queue if "queue" in args.given else ctx.config().defaults["queue"]),
        label=str(args.worker_id or f"{os.uname().nodename}-{os.getpid()}"),
        once=bool(args.once),
        drain=bool(args.drain),
        slots=args.slots,
        concurrency=int(args.concurrency),
        max_jobs=args.max_jobs,
        idle_timeout=args.idle_timeout,
        poll_interval=float(args.poll_interval),
        grace=float(args.grace),
    )


def _answer(shift: "Shift") -> "Row":
    tally, options = shift.tally, shift.options
    if options.once:
        return tally.last or {"claimed": False}
    if options.drain:
        return {
            "drained": shift.drained,
            "executed": tally.executed,
            "succeeded": tally.succeeded,
            "failed": tally.failed,
            "dead": tally.dead,
            "unsettled": shift.unsettled,
        }
    return {"stopped": True, "executed": tally.executed}


def text(data: "Row", view: "View") -> str:
    from ..terminal import counted

    if "claimed" in data:
        if not data["claimed"]:
            return "nothing to run\n"
        return f"job {data['job_id']} attempt {data['attempt_no']}: {data['result']} ({data['job_state']})\n"
    if "drained" not in data:
        return f"stopped after {counted(data['executed'], 'attempt')}\n"
    head = "drained" if data["drained"] else "stopped before the lane had settled"
    run = counted(data["executed"], "attempt")
    counts = f"{run}: {data['succeeded']} succeeded, {data['failed']} failed"
    held = f"; unsettled: {', '.join(map(str, data['unsettled']))}" if data["unsettled"] else ""
    return f"{head}: {counts}, {counted(data['dead'], 'job')} dead{held}\n"
