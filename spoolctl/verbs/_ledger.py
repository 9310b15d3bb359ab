"""Going on from a place in the ledger, and the sleep between two looks at it.

Nobody sleeps with a read transaction: a look ends before the sleep begins.
"""

from .. import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row


class Ledger:
    """The events after a cursor. A look that finds the database unchanged asks nothing of it."""

    def __init__(self, ctx: "Context", since: int, job: "tuple[str, object] | None") -> None:
        self.ctx = ctx
        self.cursor = since
        self.job = job
        self.job_id: "int | None" = None
        self._db = ctx.reader()
        self._seen: "int | None" = None

    def to_end(self) -> None:
        from ..store import events

        self.cursor = events.last_id(self._db)

    def find_job(self) -> bool:
        """Whether the job asked for has a number: an id is one, also when no such job is kept."""
        if self.job is None or self.job_id is not None:
            return True
        if self.job[0] == "id":
            self.job_id = self.job[1]  # type: ignore[assignment]
        else:
            from ..store import jobs

            self.job_id = jobs.newest_id_by_key(self._db, str(self.job[1]))
        return self.job_id is not None

    def read(self, most: int) -> "list[Row]":
        """The next events; the cursor moves behind them."""
        from ..store import events

        found = events.page(self._db, self.cursor, most, self.job_id) if self.find_job() else []
        if found:
            self.cursor = found[-1]["id"]
        return found

    def look(self, most: int) -> "list[Row]":
        """As `read`, after somebody committed; else nothing. Raises DB_INVALID (deleted, replaced)."""
        if not self._db.exists:
            self.ctx.close()
            self._db = self.ctx.reader()
        else:
            self._db.check_in_place()
        version = self._db.data_version()  # before the query: what comes in between is seen next time
        if version == self._seen:
            return []
        found = self.read(most)
        if len(found) < most:
            self._seen = version
        return found

    def first_id(self) -> "int | None":
        from ..store import events

        return events.first_id(self._db, self.job_id) if self.find_job() else None


def rest(ctx: "Context", seconds: float) -> bool:
    """Sleep until there may be something new: the one place that waits. False when nobody reads any more."""
    fd = getattr(ctx.out, "fd", None)
    if fd is None:
        clock.sleep(seconds)
        return True
    import select

    # A poll for nothing still tells of the error that a pipe without a reader is in.
    poller = select.poll()
    poller.register(fd, 0)
    return not poller.poll(seconds * 1000 + 1)
