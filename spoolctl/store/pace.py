"""Changing many jobs in short write transactions, between which others get the lock.

How many jobs a transaction takes follows from how long the last one held the lock: what a job costs
differs a hundredfold between machines, and with the number of pages its row and its indexes lie on.
"""

from .. import clock
from .checkpoint import Checkpointer
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

FIRST = 50  # jobs of the first transaction
LEAST, MOST = 10, 500  # jobs that a transaction takes; below that the commit itself is what costs
AIM = 0.01  # seconds a transaction may hold the lock; a busy disk can make it some times that
GAP = 0.003  # seconds at least between two: a worker that only tries the lock tries it every 2 ms


class Pace:
    """One long change. `size` is the number of jobs that the next transaction takes."""

    def __init__(self, db: Db, most: int = MOST) -> None:
        self.db = db
        self.most = most
        self.size = min(FIRST, most)
        self.checkpointer = Checkpointer(db)

    def took(self, jobs: int, seconds: float) -> None:
        """Learn from a transaction that changed so many jobs."""
        fits = int(jobs * AIM / seconds) if seconds > 0 else self.most
        self.size = min(max(LEAST, min(fits, 2 * self.size)), self.most)

    def keep_log_small(self) -> None:
        if self.checkpointer.due():
            self.checkpointer.attempt()

    def pause(self, seconds: float) -> None:
        """Let others write, for so long at least as a worker needs."""
        clock.sleep(max(GAP, seconds))

    def close(self) -> None:
        self.checkpointer.close()

    def each(self, ids: "list[int]", change: "Callable[[sqlite3.Connection, int, float], None]") -> None:
        """Call `change` (connection, id, epoch seconds) for each job, inside a write transaction.

        Raises LOCKED and what `change` raises; what was committed until then stays.
        """
        done, held = 0, 0.0
        while done < len(ids):
            if done:
                self.pause(held / 2)
            part = ids[done : done + self.size]
            with self.db.write() as conn:
                began, now = clock.monotonic(), clock.now()
                for job_id in part:
                    change(conn, job_id, now)
            held = clock.monotonic() - began
            self.took(len(part), held)
            self.keep_log_small()
            done += len(part)
