"""Running checks in order: what one needs and did not get skips it, and no broken thing ends the run.

A check returns its outcome. What it raises (a SpoolctlError, an error of SQLite or of the system) is one too:
a failure with that message.
"""

import os
import sqlite3

from ..errors import SpoolctlError
from ..paths import look, raw, size_of
from ..terminal import pasteable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context
    from ..paths import Spool
    from ..store.db import Db, Row
    from ..store.health import Stamp

    Run = Callable[["Scene"], "Outcome"]
    Checks = tuple[tuple[str, tuple[str, ...], str], ...]

# Where a database can be of one's own, when there can be none here.
ELSEWHERE = "spoolctl doctor --db ~/.local/state/spoolctl/queue.db"
LOOKS = 3


class Outcome:
    """How a check ended. `stops`: what needs it has nothing to look at."""

    __slots__ = ("message", "remediation", "status", "stops")

    def __init__(
        self, status: str, message: str, remediation: "str | None" = None, stops: bool = False
    ) -> None:
        self.status = status
        self.message = message
        self.remediation = remediation
        self.stops = stops or status == "fail"


def passed(message: str) -> Outcome:
    return Outcome("pass", message)


def warned(message: str, remediation: "str | None", stops: bool = False) -> Outcome:
    return Outcome("warn", message, remediation, stops)


def failed(message: str, remediation: "str | None") -> Outcome:
    return Outcome("fail", message, remediation)


class Scene:
    """What the checks have found so far, for those that come after."""

    def __init__(self, ctx: "Context") -> None:
        self.ctx = ctx
        self.place: "Spool | None" = None
        self.info: "os.stat_result | None" = None
        self.base = ""  # the nearest directory that exists above the database
        self.writable = False  # whether the database's files can be made
        self.db: "Db | None" = None
        self.version: "int | None" = None
        self.sound = False  # whether the schema is the present one, and complete
        self.stamp: "Stamp" = ()  # of the file, before it was opened
        self.output_bytes: "int | None" = None

    @property
    def spool(self) -> "Spool":
        assert self.place is not None
        return self.place

    @property
    def open_db(self) -> "Db":
        assert self.db is not None
        return self.db

    def ours(self, command: str) -> str:
        """A command of ours about the same database."""
        return self.ctx.with_db(f"spoolctl {command}")

    def db_bytes(self) -> int:
        return size_of(self.spool.db) if self.place else 0

    def wal_bytes(self) -> int:
        return size_of(self.spool.db + "-wal") if self.place else 0

    def close(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None


def run(checks: "Checks", ctx: "Context") -> "tuple[Scene, list[Row]]":
    """What was found, and the outcome of each check. What is read without a lock can be torn by a writer: a
    failure counts only of a file that stood still, or after the third look."""
    from ..store.health import stamp

    looks = 0
    while True:
        looks += 1
        scene = Scene(ctx)
        try:
            rows = examine(checks, scene)
        finally:
            scene.close()
        torn = bool(scene.stamp) and stamp(scene.spool) != scene.stamp
        if not torn or looks == LOOKS or all(row["status"] != "fail" for row in rows):
            return scene, rows


def examine(checks: "Checks", scene: Scene) -> "list[Row]":
    """The outcome of each (id, ids it needs, module), in order."""
    rows: "list[Row]" = []
    stopped: "dict[str, str]" = {}  # id -> the id that stopped it
    for name, needs, module in checks:
        blocked = next((stopped[need] for need in needs if need in stopped), None)
        if blocked is not None:
            stopped[name] = blocked
            outcome = Outcome("skip", f"needs {blocked}")
        else:
            outcome = _outcome(_function(name, module), scene)
            if outcome.stops:
                stopped[name] = name
        rows.append(_row(name, outcome, blocked))
    return rows


def _function(name: str, module: str) -> "Run":
    found: "Run" = getattr(__import__(f"{__package__}.{module}", fromlist=[name]), name)
    return found


def _row(name: str, outcome: Outcome, blocked: "str | None") -> "Row":
    return {
        "id": name,
        "status": outcome.status,
        "message": outcome.message,
        "remediation": None if outcome.remediation is None else pasteable(outcome.remediation),
        "blocked_by": blocked,
    }


def _outcome(check: "Run", scene: Scene) -> Outcome:
    try:
        return check(scene)
    except SpoolctlError as error:
        return of_error(error, scene)
    except sqlite3.Error as error:
        from ..store.faults import translated

        return of_error(translated(error, scene.spool.db), scene)
    except OSError as error:
        return failed(f"{_named(error)}: {error.strerror}", ELSEWHERE)


def _named(error: OSError) -> str:
    name = error.filename
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "the system")


def of_error(error: SpoolctlError, scene: Scene) -> Outcome:
    """A failure with an error's message, and the nearest command to a way out of it."""
    mends = {"LOCKED": scene.ours("doctor"), "DISK_FULL": f"df -h {quoted(scene.base)}"}
    return failed(error.message, mends.get(error.code) or look(scene.place.db if scene.place else scene.base))


def may(path: str, mode: int) -> bool:
    """Whether this process may, by its effective ids; a read-only file system says no."""
    effective = os.access in os.supports_effective_ids
    return os.access(raw(path), mode, effective_ids=effective)


def words(paths: "list[str]") -> str:
    return " ".join(quoted(path) for path in dict.fromkeys(paths))
