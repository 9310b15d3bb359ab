"""This worker's place among the workers: its lock, its row, its heartbeat (SPEC 6)."""

from .. import clock, hooks
from ..contract.limits import HEARTBEAT
from ..store import workers
from ..store.db import Db
from . import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row


class Membership:
    """Registered from `join` (inside a write transaction, confirmed by `joined` after it) to `leave`."""

    def __init__(self, db: Db, label: str, lane: str, kind: str, concurrency: int, grace: float) -> None:
        self.db = db
        self.row: "Row" = {
            "instance": 0,
            "label": label,
            "lane": lane,
            "kind": kind,
            "concurrency": concurrency,
            "grace": grace,
        }
        self.lock: "identity.WorkerLock | None" = None
        self._named = False
        self._next_beat = 0.0

    @property
    def instance(self) -> int:
        return int(self.row["instance"]) if self._named else 0

    def prepare(self) -> None:
        """Make and take the lock, before the transaction that registers. Raises SpoolctlError, OSError."""
        if self.lock is None:
            from ..store.faults import of_os
            from ..store.place import make_folder

            make_folder(self.db.spool.workers)
            try:
                self.lock = identity.WorkerLock(self.db.spool)
            except OSError as error:
                raise of_os(error, self.db.spool.workers) or error from None
            hooks.at("lock made")
            self.row.update(identity.myself(), lock_dev=self.lock.dev, lock_ino=self.lock.ino)

    def join(self, conn: object, now: float) -> None:
        """Register inside the caller's transaction, unless that is done."""
        if not self._named:
            self.row["started_at"] = now
            self.row["instance"] = workers.register(conn, self.row)  # type: ignore[arg-type]

    def joined(self) -> None:
        """The registration is committed: give the lock its name."""
        if not self._named:
            assert self.lock is not None
            self.lock.name(int(self.row["instance"]))
            hooks.at("lock named")
            self._named = True
            self._next_beat = clock.monotonic() + HEARTBEAT

    def beat(self) -> None:
        if self.lock is not None and clock.monotonic() >= self._next_beat:
            self._next_beat = clock.monotonic() + HEARTBEAT
            self.lock.beat()

    def leave(self) -> None:
        """Take the row back, then let the lock go. A row with a stuck job stays, for the reapers, and the
        lock's file with it: that it can be taken proves the death to every namespace."""
        if self.lock is None:
            return
        gone = not self._named
        try:
            if self._named:
                with self.db.write(full=False, any_schema=True) as conn:
                    gone = workers.unregister(conn, self.instance)
        finally:
            self.lock.release(gone)
            self.lock = None
            hooks.at("lock released")
