"""events --follow: the ledger as it grows, a line an event.

A follower ends with status 0 on INT and TERM, and its stream holds whole lines only.
"""

from .. import clock, jsontext
from ..contract.spec import Args, Result
from ..errors import SpoolctlError
from ._ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row

CHUNK = 256  # events a follower holds at once


class _Signalled(BaseException):
    """INT or TERM came while following."""


class _Stop:
    """The handler of INT and TERM; `with stop:` is a block that they may break off.

    Such a block holds only what can wait: the rest and the writes. An exception anywhere else could be
    swallowed (Python does that in the callbacks of weak references, of which an import has one), or break a
    question to the database.
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def __call__(self, number: int, frame: object) -> None:
        self.asked = True
        if self._waiting:
            self._waiting = False
            raise _Signalled

    def __enter__(self) -> None:
        self._waiting = True
        if self.asked:  # looked at last, so that no moment is left between the look and the block
            self._waiting = False
            raise _Signalled

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._waiting = False


def run(args: Args, ctx: "Context", since: int) -> Result:
    """Follow; INT and TERM end it with status 0. The handlers stay until the process is over: with the old
    ones a signal after the last line would end it otherwise."""
    import select  # noqa: F401 - what rests and writes finds it loaded
    import signal

    stop = _Stop()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
    except ValueError:  # not the main thread: signals are not ours
        pass
    try:
        return _guarded(args, ctx, since, stop)
    except _Signalled:
        return Result(streamed=True)


def _guarded(args: Args, ctx: "Context", since: int, stop: _Stop) -> Result:
    """Follow; in JSON mode the database's errors are a frame too."""
    ctx.spool()
    if not ctx.json:
        _follow(args, ctx, since, stop)
        return Result(streamed=True)
    from ..store import sqlite3
    from ..store.faults import translated

    try:
        _follow(args, ctx, since, stop)
        return Result(streamed=True)
    except sqlite3.Error as error:
        fault = translated(error, ctx.db_path())
    except SpoolctlError as error:
        fault = error
    said = {"message": fault.message, "exit_code": fault.exit_code}
    _frame(ctx, stop, {"control": {"type": "error", "reason": "sqlite_error", **said}})
    return Result(streamed=True, exit_code=fault.exit_code)


def _follow(args: Args, ctx: "Context", since: int, stop: _Stop) -> None:
    ledger = Ledger(ctx, since, args.job)
    if not {"since_id", "since_cursor"} & args.given:
        ledger.to_end()
    try:
        _go_on(ledger, args, ctx, stop)
    finally:
        ledger.close()


def _go_on(ledger: Ledger, args: Args, ctx: "Context", stop: _Stop) -> None:
    left: "int | None" = args.max_events
    idle: "float | None" = args.idle_timeout
    last = clock.monotonic()
    while not stop.asked:
        found = ledger.look(CHUNK if left is None else min(CHUNK, left))
        for event in found:
            _say(ctx, stop, event)
        if found:
            last = clock.monotonic()
            if left is not None:
                left -= len(found)
                if not left:
                    return _end(ctx, stop, "max_events")
            continue
        nap = float(args.poll_interval)
        if idle is not None:
            remaining = last + idle - clock.monotonic()
            if remaining <= 0:
                return _end(ctx, stop, "idle_timeout")
            nap = min(nap, remaining)
        if ledger.begin():
            continue
        with stop:
            if not ledger.rest(nap):
                return None
    return None


def _say(ctx: "Context", stop: _Stop, event: "Row") -> None:
    if ctx.json:
        _frame(ctx, stop, event)
        return
    parts = [str(event["id"]), clock.iso(event["at"]), f"job {event['job_id']}"]
    line = "  ".join(parts + _what(event))
    _write(ctx, stop, jsontext.plain(line + "\n").encode("utf-8"))


def _end(ctx: "Context", stop: _Stop, reason: str) -> None:
    if ctx.json:
        _frame(ctx, stop, {"control": {"type": "end", "reason": reason}})


def _frame(ctx: "Context", stop: _Stop, value: object) -> None:
    _write(ctx, stop, jsontext.shown(value).encode("ascii") + b"\n")


def _write(ctx: "Context", stop: _Stop, line: bytes) -> None:
    with stop:
        ctx.out.write(line)


def _what(event: "Row") -> "list[str]":
    from ..terminal import escaped

    words = [event["event"], event["worker_id"], event["detail"]]
    return [escaped(str(word)) for word in words if word is not None]
