"""A fixed set of jobs that somebody waits for, and how far they have settled.

A look costs what there is to see: a small set is read again, of a big one only the jobs that new events
name (no job changes its state without one) and a slice of the rest in turn, since a job that was pruned
takes its events along. Each chunk is a read of its own: no look holds the WAL back.
"""

from ..contract.limits import WAIT_JOBS_MAX
from ..contract.states import TERMINAL
from . import events
from .db import Db
from .select import chunks, holes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .db import Row

SMALL = 5000  # jobs read at every look

NAMES = ("id", "state", "attempts", "last_exit_code", "last_error", "last_failure_reason")
STATES = f"SELECT {', '.join(NAMES)} FROM jobs WHERE id IN ({{}}) ORDER BY id"
CHANGED_SINCE = "SELECT id, job_id FROM job_events WHERE id > :since ORDER BY id LIMIT :most"
HOLDERS = """
SELECT DISTINCT queue, owner FROM jobs
WHERE id IN ({}) AND kind = 'command' AND state IN ('queued', 'running')
ORDER BY queue, owner
"""


class Awaited:
    """`settled` has a row for each settled job (state None: pruned), but those that are done only in a set
    small enough to be shown whole; `counts` counts them all. What is settled stays so."""

    def __init__(self, db: Db, ids: "list[int]") -> None:
        self.db = db
        self.ids = ids
        self.pending = set(ids)
        self.settled: "dict[int, Row]" = {}
        self.counts: "dict[str | None, int]" = {}
        self.whole = len(ids) <= WAIT_JOBS_MAX
        self._seen = db.data_version()
        self._event = events.last_id(db)
        self._turn = 0
        self._unswept = 0
        self._read(ids)

    @property
    def succeeded(self) -> int:
        return self.counts.get("done", 0)

    @property
    def failed(self) -> int:
        """Settled otherwise than done."""
        return len(self.ids) - len(self.pending) - self.succeeded

    def look(self) -> None:
        """Go by what was committed since the last look; asks nothing when nothing was. Raises DB_INVALID."""
        if self.db.exists:
            self.db.check_in_place()
        version = self.db.data_version()
        if version != self._seen:
            self._seen, self._unswept = version, len(self.ids)
        elif self._unswept <= 0:
            return
        if len(self.pending) <= SMALL:
            self._unswept = 0
            self._read(self.left())
        else:
            self._unswept -= SMALL
            self._read(self._changed())
            self._read(self._next_slice())

    def left(self) -> "list[int]":
        """What is pending, in the order of the set."""
        return [job_id for job_id in self.ids if job_id in self.pending]

    def _changed(self) -> "list[int]":
        """The pending jobs that new events name."""
        found: "set[int]" = set()
        most = 10_000
        while True:
            rows = self.db.all(CHANGED_SINCE, {"since": self._event, "most": most})
            found.update(job_id for _, job_id in rows)
            if rows:
                self._event = rows[-1][0]
            if len(rows) < most:
                return sorted(found & self.pending)

    def _next_slice(self) -> "list[int]":
        part = self.ids[self._turn : self._turn + SMALL]
        self._turn = self._turn + SMALL if self._turn + SMALL < len(self.ids) else 0
        return [job_id for job_id in part if job_id in self.pending]

    def _read(self, ids: "list[int]", keep: bool = False) -> "dict[int, Row]":
        """Settle those that have ended; the rows of the others, with `keep`."""
        others: "dict[int, Row]" = {}
        for part in chunks(ids):
            rows = self.db.all(STATES.format(holes(part)), part)
            for row in rows:
                if row[1] in TERMINAL:
                    self._settle(row[0], dict(zip(NAMES, row, strict=True)))
                elif keep:
                    others[row[0]] = dict(zip(NAMES, row, strict=True))
            if len(rows) < len(part):
                for job_id in set(part) - {row[0] for row in rows}:
                    self._settle(job_id, {"id": job_id, "state": None})
        return others

    def _settle(self, job_id: int, row: "Row") -> None:
        state: "str | None" = row["state"]
        self.pending.discard(job_id)
        self.counts[state] = self.counts.get(state, 0) + 1
        if self.whole or state != "done":
            self.settled[job_id] = row

    def rows(self) -> "dict[int, Row]":
        """The rows of the set in its order, pending ones as they are now; a big set's without those done."""
        return self._ordered({**self._read(self.left(), keep=True), **self.settled})

    def settled_rows(self) -> "dict[int, Row]":
        """The rows of what has settled, in the set's order; a big set's without those done."""
        return self._ordered(self.settled)

    def _ordered(self, rows: "dict[int, Row]") -> "dict[int, Row]":
        return {job_id: rows[job_id] for job_id in self.ids if job_id in rows}

    def holders(self) -> "set[tuple[str, int | None]]":
        """(lane, owner or None) of the commands that are pending."""
        found: "set[tuple[str, int | None]]" = set()
        for part in chunks(self.left()):
            found.update(self.db.all(HOLDERS.format(holes(part)), part))
        return found
