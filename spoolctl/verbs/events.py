"""events: read the ledger, a page at a time or, through `_following`, as it grows."""

from .. import clock
from ..contract import limits
from ..contract.shared import POLL_INTERVAL
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import WAIT, Duration, Integer, JobRef
from ._ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

CURSOR = Integer(0, limits.INT64_MAX)

SPEC = Verb(
    "events",
    "read the ledger of what happened to jobs",
    "Events have ids that only grow. A page starts after --since-id; meta.pagination.cursor is what to "
    "pass next. --wait answers as soon as there is something after that id. --follow goes on, one event "
    "a line, from the present end of the ledger or from --since-id.",
    flags=(
        Flag("--since-id", CURSOR, 0, "only events after this id"),
        Flag("--since-cursor", CURSOR, 0, "the same, under the name of what the last answer gave"),
        Flag(
            "--limit",
            Integer(0, limits.EVENTS_MAX),
            limits.EVENTS_DEFAULT,
            f"at most so many events; 0 is the most allowed, {limits.EVENTS_MAX}",
        ),
        Flag("--job", JobRef(), help="only events of this job"),
        Flag("--wait", help="when there is nothing yet, wait for it"),
        Flag("--wait-timeout", WAIT, 30, "how long --wait waits"),
        Flag("--follow", help="go on with what comes, until a signal"),
        Flag("--max-events", Integer(1, limits.INT64_MAX), help="end after so many events"),
        Flag("--idle-timeout", Duration(limits.WAIT_MAX), help="end when nothing came so long; 0: at once"),
        POLL_INTERVAL,
    ),
    exclusive=(
        ("since_id", "since_cursor"), ("wait", "follow"), ("limit", "follow"), ("max_events", "wait"),
        ("idle_timeout", "wait"),
    ),
    needs={"max_events": ("follow",), "idle_timeout": ("follow",), "wait_timeout": ("wait",)},
    examples=(
        ("spoolctl events --json --limit 100", "the first hundred events that are kept"),
        ("spoolctl events --json --since-id 100 --wait", "what came after event 100, or the next to come"),
        ("spoolctl events --follow --job 7", "watch job 7, a line an event"),
    ),
    errors=(
        "INVALID_INPUT", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY", "LOCKED",
        "INTERNAL",
    ),
    modes=("envelope", "frames", "text"),
    bounded_by={
        "follow": (("--idle-timeout", "0"), ("--max-events", "1", "--since-id", "0")),
        "wait": (("--wait-timeout", "0.05"),),
    },
)  # fmt: skip


def _event() -> "Row":
    from ..contract import shapes as s
    from ..contract import states

    return s.obj(
        id=s.ID,
        job_id=s.ID,
        at=s.TIME,
        event=s.enum(*states.EVENTS),
        worker_id=s.nullable(s.STR),
        detail=s.nullable(s.STR),
    )


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    return s.obj(count=s.COUNT, events=s.arr(_event()))


def meta() -> "dict[str, Row]":
    from ..contract import shapes as s

    return {
        "pagination": s.obj(cursor=s.COUNT, first_id=s.nullable(s.ID)),
        "wait_": s.obj(reason=s.enum("records_available", "timeout"), waited_ms=s.COUNT),
    }


def streams() -> "dict[str, Row]":
    """The lines of `--follow --json`: `_data` is an event, the other has the control lines too."""
    from ..contract import shapes as s

    end = s.obj(type={"const": "end"}, reason=s.enum("max_events", "idle_timeout"))
    fault = s.obj(type={"const": "error"}, reason={"const": "sqlite_error"}, message=s.STR, exit_code=s.INT)
    line = s.any_of(_event(), s.obj(control=s.any_of(end, fault)))
    return {"events_follow": line, "events_follow_data": _event()}


def run(args: Args, ctx: "Context") -> Result:
    since = args.since_cursor if "since_cursor" in args.given else args.since_id
    if args.follow:
        from . import _following

        return _following.run(args, ctx, since)
    ledger = Ledger(ctx, since, args.job)
    most = int(args.limit) or limits.EVENTS_MAX
    wait = None
    if args.wait:
        found, wait = _wait(ledger, most, args)
    elif not ledger.find_job():
        from ..store import select

        raise select.not_found([args.job])
    else:
        found = ledger.read(most)
    page: "Row" = {"cursor": ledger.cursor, "first_id": ledger.first_id()}
    more = f"spoolctl events --since-id {ledger.cursor} --wait"
    if ledger.job_id is not None:
        more += f" --job {ledger.job_id}"
    return Result({"count": len(found), "events": found}, [ctx.with_db(more)], pagination=page, wait=wait)


def _wait(ledger: Ledger, most: int, args: Args) -> "tuple[list[Row], Row]":
    began = clock.monotonic()
    deadline = began + float(args.wait_timeout)
    while True:
        found = ledger.look(most)
        left = deadline - clock.monotonic()
        if found or left <= 0:
            break
        if not (ledger.begin() or ledger.rest(min(left, float(args.poll_interval)))):
            break
    ledger.close()
    waited = int((clock.monotonic() - began) * 1000)
    return found, {"reason": "records_available" if found else "timeout", "waited_ms": waited}


def text(data: "Row", view: "View") -> str:
    from ..terminal import ago, escaped, table

    rows = [
        [str(e["id"]), str(e["job_id"]), ago(e["at"], view), str(e["event"]),
         escaped(str(e["worker_id"] or "-")), escaped(str(e["detail"] or ""))]
        for e in data["events"]
    ]  # fmt: skip
    return table(["ID", "JOB", "WHEN", "EVENT", "WORKER", "DETAIL"], rows, view) or "no events\n"
