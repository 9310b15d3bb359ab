"""The guarded checkpoint: PASSIVE on one connection while this process holds the write lock on another.

SQLite 3.7.0 to 3.51.2 can lose a commit that resets the WAL while a checkpoint starts (the WAL-reset
bug). Holding BEGIN IMMEDIATE means that no commit can overlap, whatever version is at hand.
"""

from .. import hooks
from ..errors import SpoolctlError
from . import sqlite3
from .db import WORK_TRIGGER, Db, connect

STEP = 1024 * 1024  # growth since this process's last try


class Checkpointer:
    """Remembers this process's last try, so that a WAL some reader pins is not tried at every look."""

    def __init__(self, db: Db, trigger: int = WORK_TRIGGER) -> None:
        self.db = db
        self.trigger = trigger
        self.last = 0
        self._other: "sqlite3.Connection | None" = None

    def due(self) -> bool:
        size = self.db.wal_bytes()
        if size < self.last:
            self.last = 0
        return size >= self.trigger and size >= self.last + STEP

    def run(self) -> None:
        """Copy what no reader pins back into the database. Raises DB_INVALID, sqlite3.Error.

        Where the lock or a descriptor is not to be had, which is nobody's fault, the next look tries again.
        """
        try:
            if self._other is None:
                self._other = connect(self.db.spool, 0)
            with self.db.write(full=True, any_schema=True):
                self.last = self.db.wal_bytes()
                hooks.at("checkpoint: begun")
                self._other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                hooks.at("checkpoint: made")
        except SpoolctlError as error:
            if error.code != "LOCKED":
                raise
        except sqlite3.OperationalError as error:
            from .faults import is_busy, primary

            if not is_busy(error) and primary(error) != 14:
                raise

    def attempt(self) -> None:
        """As `run`, for who has committed what was asked for: what fails now must not ask for it once more.

        The next look tries again.
        """
        try:
            self.run()
        except (SpoolctlError, sqlite3.Error):
            pass

    def close(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None
