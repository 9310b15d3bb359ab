"""Giving free pages back to the file system, in short steps beside workers; never a VACUUM."""

from .. import clock
from .checkpoint import Checkpointer
from .db import Db

PAGES = 256  # pages a step moves: some milliseconds of write lock

FREE_PAGES = "PRAGMA freelist_count"
SHRINK_BY_ONE = "PRAGMA incremental_vacuum(1)"  # a call of sqlite3 makes one step of it, whatever N says


def compact(db: Db) -> None:
    """Shrink the database file by its free pages. Raises LOCKED, DB_INVALID, sqlite3.Error."""
    if not db.exists:
        return
    checkpointer = Checkpointer(db)
    for _ in range(_free(db) // PAGES + 1):  # bounded, since others may free pages all the time
        if not _free(db):
            break
        began = clock.monotonic()
        with db.write(full=False) as conn:
            for _ in range(min(PAGES, _free(db))):
                conn.execute(SHRINK_BY_ONE).fetchall()
        if checkpointer.due():
            checkpointer.run()
        clock.sleep(min(0.05, clock.monotonic() - began))
    checkpointer.run()  # the file itself gets shorter only now


def _free(db: Db) -> int:
    return int(db.one(FREE_PAGES)[0])  # type: ignore[index]
