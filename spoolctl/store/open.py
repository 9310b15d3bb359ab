"""Opening the queue's file: what may be opened, and as what. Making and migrating it load on demand."""

from ..paths import Spool
from . import ddl
from .db import Db, opened, stand_in
from .file import inspect


def exists(spool: Spool) -> bool:
    """Whether there is something to open; a zero-byte file is a database that is still to be made.

    Raises DB_INVALID (no file, hard links)."""
    info = inspect(spool)
    return info is not None and info.st_size > 0


def open_reader(spool: Spool) -> Db:
    """Open for reading; a missing or still empty database answers as an empty one."""
    info = inspect(spool)
    if info is None or info.st_size == 0:
        return stand_in(spool)
    db, version = opened(spool, info)
    if version == 0:
        db.close()
        return stand_in(spool)
    if version < ddl.VERSION:
        _migrate(db)
    return db


def open_writer(spool: Spool, create: bool = False) -> Db:
    """Open for writing; with `create` a missing or empty database is made, directories too.

    Without it a missing one answers as an empty one, and nothing is made.
    """
    info = inspect(spool)
    if info is None or info.st_size == 0:
        if not create:
            return stand_in(spool)
        return _make(spool)
    db, version = opened(spool, info)
    if version == ddl.VERSION:
        return db
    if version == 0:
        db.close()
        if not create:
            return stand_in(spool)
        return _make(spool)
    _migrate(db)
    return db


def _make(spool: Spool) -> Db:
    from .make import make

    return make(spool)


def _migrate(db: Db) -> None:
    from .migrate import migrate

    migrate(db)
