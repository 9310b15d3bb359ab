"""list: the jobs that fulfil given conditions, newest first, a page at a time."""

from ..contract import limits
from ..contract.shared import QUEUE, TAG
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import JOB_ID, KEY, PRIORITY, STATES, TIMESTAMP, ChoiceList, Integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

# The keys of a job, in the order of shapes.job_fields.
FIELDS = (
    "id", "argv", "payload", "state", "attempts", "crashes", "max_retries", "max_crashes", "timeout_seconds",
    "created_at", "started_at", "finished_at", "next_run_at", "priority", "queue", "cwd", "last_exit_code",
    "last_signal", "last_error", "last_failure_reason", "idempotency_key", "tags", "note",
)  # fmt: skip

SPEC = Verb(
    "list",
    "list jobs, newest first",
    "All conditions must hold. meta.pagination.cursor is the last id shown: give it to --before for the "
    "next page; truncated says whether there is one.",
    flags=(
        Flag("--state", STATES, help="only jobs in this state, or in one of a comma list"),
        TAG,
        QUEUE,
        Flag("--priority-min", PRIORITY, help="only jobs of this priority or a higher one"),
        Flag("--key", KEY, help="only jobs with this key"),
        Flag("--since", TIMESTAMP, help="only jobs added at that time or later"),
        Flag("--until", TIMESTAMP, help="only jobs added at that time or earlier"),
        Flag(
            "--limit",
            Integer(0, limits.LIST_MAX),
            limits.LIST_DEFAULT,
            f"at most so many jobs; 0 is the most allowed, {limits.LIST_MAX}",
        ),
        Flag("--before", JOB_ID, help="only jobs with a lower id: the cursor of the page before"),
        Flag("--fields", ChoiceList(*FIELDS), help="only these keys of each job"),
    ),
    examples=(
        ("spoolctl list --state dead,canceled --queue builds", "what failed in a lane"),
        ("spoolctl list --tag run=42 --json --fields id,state", "the states of one batch"),
        ("spoolctl list --before 1200", "the page that follows job 1200"),
    ),
    errors=(
        "INVALID_INPUT", "UNKNOWN_FLAG", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY", "LOCKED", "INTERNAL",
    ),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    fields = s.job_fields()
    some = s.obj(**{f"{name.rstrip('_')}_": shape for name, shape in fields.items()})
    some["description"] = "with --fields: the keys asked for"
    return s.obj(count=s.COUNT, jobs=s.arr(s.any_of(s.obj(**fields), some)))


def meta() -> "dict[str, object]":
    from ..contract import shapes as s

    limit = {"type": "integer", "minimum": 1, "maximum": limits.LIST_MAX}
    return {"pagination": s.obj(cursor=s.COUNT, first_id=s.nullable(s.ID), limit=limit, truncated=s.BOOL)}


# field of store.filter.Filter -> flag
_CONDITIONS = {
    "states": "state",
    "tags": "tag",
    "queue": "queue",
    "priority_min": "priority_min",
    "key": "key",
    "since": "since",
    "until": "until",
    "before": "before",
}


def run(args: Args, ctx: "Context") -> Result:
    from ..store import listing
    from ..store.filter import Filter

    wanted = Filter(**{field: getattr(args, dest) for field, dest in _CONDITIONS.items()})
    limit = int(args.limit) or limits.LIST_MAX
    found, truncated, oldest = listing.page(ctx.reader(), wanted, limit)
    pagination = {
        "cursor": found[-1]["id"] if found else 0,
        "first_id": oldest,
        "limit": limit,
        "truncated": truncated,
    }
    commands = [ctx.with_db(f"spoolctl show {found[0]['id']}")] if found else []
    if truncated:
        from ._repeat import call

        more = call(SPEC, args, ("--before", str(pagination["cursor"])), without=("before",))
        if more:
            commands.append(ctx.with_db(more))
        if not ctx.json:  # a table does not show that it goes on
            shown = commands[-1] if more else f"the same with --before {pagination['cursor']}"
            ctx.note(f"there are more: {shown}")
    if args.fields is not None:
        found = [{name: job[name] for name in args.fields if name in job} for job in found]
    return Result({"count": len(found), "jobs": found}, commands, pagination=pagination)


def text(data: "Row", view: "View") -> str:
    jobs: "list[Row]" = data["jobs"]
    if not jobs:
        return "no jobs\n"
    if not set(_COLUMNS) <= set(jobs[0]):
        return _chosen(jobs, view)
    from ..terminal import table
    from ._words import command, when

    names = ("id", "state", "queue", "attempts")
    rows = [[*(str(job[name]) for name in names), when(job, view), command(job)] for job in jobs]
    return table(["ID", "STATE", "QUEUE", "TRIES", "WHEN", "COMMAND"], rows, view, state=1)


# What the table of whole jobs is made of.
_COLUMNS = ("id", "argv", "state", "queue", "attempts", "started_at", "finished_at", "next_run_at")


def _chosen(jobs: "list[Row]", view: "View") -> str:
    """A table of the keys asked for; only the last column may be long."""
    from ..terminal import cut, table
    from ._words import field

    names = list(dict.fromkeys(name for job in jobs for name in job)) or ["payload"]  # commands have none
    rows = [[field(name, job.get(name), view) for name in names] for job in jobs]
    rows = [[*(cut(cell, 32) for cell in row[:-1]), row[-1]] for row in rows]
    state = names.index("state") if "state" in names else None
    return table([name.upper() for name in names], rows, view, state if state != len(names) - 1 else None)
