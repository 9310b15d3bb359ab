"""prune: delete finished jobs with their history and their output."""

from .. import clock
from ..contract import limits
from ..contract.shared import QUEUE, TAG, YES
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.states import TERMINAL
from ..contract.types import ChoiceList, Duration, Integer
from ..errors import SpoolctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "prune",
    "delete finished jobs, their history and their output",
    "Only jobs that ended longer ago than --older-than, by default those that are done. --keep spares the "
    "newest of the same states, lane and tags, whatever their age. Workers go on meanwhile.",
    flags=(
        Flag("--older-than", Duration(), help="only jobs that ended longer ago", required=True),
        Flag("--state", ChoiceList(*TERMINAL), ("done",), "only jobs in these states"),
        QUEUE,
        TAG,
        Flag("--keep", Integer(0, limits.INT64_MAX), 0, "spare the newest so many"),
        YES,
        Flag("--dry-run", help="say what would go, and change nothing"),
        Flag("--compact", help="give the space in the database back to the file system"),
    ),
    exclusive=(("yes", "dry_run"),),
    examples=(
        ("spoolctl prune --older-than 7d --dry-run", "what a prune would delete"),
        ("spoolctl prune --older-than 7d --keep 1000 --yes", "a week and at least a thousand jobs are kept"),
        ("spoolctl prune --older-than 30d --state done,dead,canceled --compact --yes", "once a month"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY",
        "LOCKED", "DISK_FULL", "INTERNAL",
    ),
    mutates=True,
    destructive=True,
    confirmation=("--yes",),
    safety="nothing is deleted without --yes; --dry-run shows what would be",
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    return s.obj(
        matched=s.COUNT,
        deleted_jobs=s.COUNT,
        deleted_attempts=s.COUNT,
        deleted_events=s.COUNT,
        freed_bytes=s.COUNT,
        dry_run=s.BOOL,
        actual=s.BOOL,
        irreversible_={"const": True},
    )


def run(args: Args, ctx: "Context") -> Result:
    if not (args.yes or args.dry_run):
        raise SpoolctlError(
            "SAFETY_BLOCK",
            "prune deletes jobs, their history and their output for good; --yes confirms it",
            _again(args, "--dry-run"),
        )
    from ..store import prune

    db = ctx.reader() if args.dry_run else ctx.writer()
    states = list(args.state)
    cutoff = round(clock.now() - float(args.older_than), 3)
    wanted = prune.selection(db, states, cutoff, args.queue, args.tag, int(args.keep))
    tally = prune.survey(db, wanted) if args.dry_run else prune.delete(db, wanted)
    answer: "Row" = {
        "matched": tally.matched,
        "deleted_jobs": tally.jobs,
        "deleted_attempts": tally.attempts,
        "deleted_events": tally.events,
        "freed_bytes": tally.freed,
        "dry_run": bool(args.dry_run),
        "actual": not args.dry_run,
    }
    if args.dry_run:
        return Result(answer, [ctx.with_db(_again(args, "--yes"))] if tally.matched else [])
    answer["irreversible"] = True
    if args.compact:
        from ..store.compact import compact

        compact(db)
    if tally.left:
        from ..terminal import counted

        jobs = counted(tally.left, "job")
        ctx.note(f"the output of {jobs} cannot be removed; the next prune tries again")
    return Result(answer)


def _again(args: Args, word: str) -> str:
    """The same call with `--dry-run` or `--yes`."""
    from ._repeat import call

    return call(SPEC, args, (word,), without=("dry_run", "yes")) or "spoolctl prune --help"


def text(data: "Row", view: "View") -> str:
    from ..terminal import counted, size

    jobs, freed = int(data["deleted_jobs"]), int(data["freed_bytes"])
    verb = "would delete" if data["dry_run"] else "deleted"
    history = f"{counted(data['deleted_attempts'], 'attempt')}, {counted(data['deleted_events'], 'event')}"
    line = f"{verb} {counted(jobs, 'job')}, {history}; {size(freed)} of output\n"
    stayed = int(data["matched"]) - jobs
    were = "was retried meanwhile and stays" if stayed == 1 else "were retried meanwhile and stay"
    return line + (f"{counted(stayed, 'job')} {were}\n" if stayed else "")
