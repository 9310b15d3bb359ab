"""events: read the ledger, a page at a time or as it grows.

A follower ends with status 0 on INT and TERM, and its stream holds whole lines only.
"""

from .. import clock, jsontext
from ..contract import limits
from ..contract.shared import POLL_INTERVAL
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import WAIT, Duration, Integer, JobRef
from ..errors import SpoolctlError
from ._ledger import Ledger, rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

CURSOR = Integer(0, limits.INT64_MAX)
CHUNK = 256  # events a follower holds at once

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
        return _until_signalled(args, ctx, since)
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
        if found or left <= 0 or not rest(ledger.ctx, min(left, float(args.poll_interval))):
            break
    waited = int((clock.monotonic() - began) * 1000)
    return found, {"reason": "records_available" if found else "timeout", "waited_ms": waited}


class _Signalled(BaseException):
    """INT or TERM came while following."""


class _Stop:
    """The handler of INT and TERM: the first ends what is going on, a write that blocks included."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: object) -> None:
        if not self.asked:
            self.asked = True
            raise _Signalled


def _until_signalled(args: Args, ctx: "Context", since: int) -> Result:
    """Follow; INT and TERM end it with status 0."""
    import signal

    stop = _Stop()
    before = {}
    try:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, stop)
        except ValueError:  # not the main thread: signals are not ours
            pass
        return _guarded(args, ctx, since, stop)
    except _Signalled:
        return Result(streamed=True)
    finally:
        if not stop.asked:  # else the handlers stay, so that a second signal changes nothing
            stop.asked = True
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)


def _guarded(args: Args, ctx: "Context", since: int, stop: _Stop) -> Result:
    """Follow; in JSON mode the database's errors are a frame too."""
    ctx.spool()
    if not ctx.json:
        _follow(args, ctx, since, stop)
        return Result(streamed=True)
    import sqlite3

    from ..store.faults import translated

    try:
        _follow(args, ctx, since, stop)
        return Result(streamed=True)
    except sqlite3.Error as error:
        fault = translated(error, ctx.db_path())
    except SpoolctlError as error:
        fault = error
    said = {"message": fault.message, "exit_code": fault.exit_code}
    _frame(ctx, {"control": {"type": "error", "reason": "sqlite_error", **said}})
    return Result(streamed=True, exit_code=fault.exit_code)


def _follow(args: Args, ctx: "Context", since: int, stop: _Stop) -> None:
    ledger = Ledger(ctx, since, args.job)
    if not {"since_id", "since_cursor"} & args.given:
        ledger.to_end()
    left: "int | None" = args.max_events
    idle: "float | None" = args.idle_timeout
    last = clock.monotonic()
    while not stop.asked:  # the exception may be lost where Python swallows one, in a finalizer
        found = ledger.look(CHUNK if left is None else min(CHUNK, left))
        for event in found:
            _say(ctx, event)
        if found:
            last = clock.monotonic()
            if left is not None:
                left -= len(found)
                if not left:
                    return _end(ctx, "max_events")
            continue
        nap = float(args.poll_interval)
        if idle is not None:
            remaining = last + idle - clock.monotonic()
            if remaining <= 0:
                return _end(ctx, "idle_timeout")
            nap = min(nap, remaining)
        if not rest(ctx, nap):
            return None
    return None


def _say(ctx: "Context", event: "Row") -> None:
    if ctx.json:
        _frame(ctx, event)
        return
    parts = [str(event["id"]), clock.iso(event["at"]), f"job {event['job_id']}"]
    line = "  ".join(parts + _what(event))
    ctx.out.write(jsontext.plain(line + "\n").encode("utf-8"))


def _end(ctx: "Context", reason: str) -> None:
    if ctx.json:
        _frame(ctx, {"control": {"type": "end", "reason": reason}})


def _frame(ctx: "Context", value: object) -> None:
    ctx.out.write(jsontext.shown(value).encode("ascii") + b"\n")


def _what(event: "Row") -> "list[str]":
    from ..terminal import escaped

    words = [event["event"], event["worker_id"], event["detail"]]
    return [escaped(str(word)) for word in words if word is not None]


def text(data: "Row", view: "View") -> str:
    from ..terminal import ago, escaped, table

    rows = [
        [str(e["id"]), str(e["job_id"]), ago(e["at"], view), str(e["event"]),
         escaped(str(e["worker_id"] or "-")), escaped(str(e["detail"] or ""))]
        for e in data["events"]
    ]  # fmt: skip
    return table(["ID", "JOB", "WHEN", "EVENT", "WORKER", "DETAIL"], rows, view) or "no events\n"
