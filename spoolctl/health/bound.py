"""A question to the database that may take only so long.

SQLite before 3.41 asks no progress handler while it checks pages, but every version heeds an interrupt.
"""

import sqlite3
import threading


class Bound:
    """`with Bound(conn, seconds) as bound:` ends the block early when the time is up; `bound.hit` says so."""

    def __init__(self, conn: sqlite3.Connection, seconds: float) -> None:
        self.hit = False
        self._timer = threading.Timer(seconds, conn.interrupt)
        self._timer.daemon = True

    def __enter__(self) -> "Bound":
        self._timer.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        self._timer.cancel()
        self._timer.join()  # the connection may be closed next
        self.hit = isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted"
        return self.hit
