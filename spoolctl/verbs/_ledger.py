"""Going on from a place in the ledger, and the sleep between two looks at it.

Nobody sleeps with a read transaction: a look ends before the sleep begins.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..watch import Watch


class Ledger:
    """The events after a cursor. A look that finds the database unchanged asks nothing of it."""

    def __init__(self, ctx: "Context", since: int, job: "tuple[str, object] | None") -> None:
        self.ctx = ctx
        self.cursor = since
        self.job = job
        self.job_id: "int | None" = None
        self._db = ctx.reader()
        self._seen: "int | None" = None
        self._watch: "Watch | None" = None

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

    def begin(self) -> bool:
        """Be told of commits from now on; True when that is new, and one more look is due before a rest."""
        if self._watch is None:
            from ..watch import Watch

            self._watch = Watch(self.ctx.spool())
        return self._db.exists and self._watch.begin()

    def rest(self, seconds: float) -> bool:
        """Sleep until there may be something new. False when nobody reads any more."""
        assert self._watch is not None
        return self._watch.rest(seconds, getattr(self.ctx.out, "fd", -1))

    def close(self) -> None:
        """Watch no longer."""
        if self._watch is not None:
            self._watch.close()
