"""Opening the queue's file: what may be opened, and how it comes to be.

Making it holds the gate, so that many processes may open a database that does not exist yet. A process
that dies on any line leaves an empty file or a whole schema: DDL is one transaction.
"""

import os
import sqlite3

from .. import CONTRACT_VERSION, clock
from ..errors import SpoolctlError
from ..paths import Spool, raw
from . import ddl
from .db import Db, connect, stand_in
from .faults import is_busy, of_os
from .gate import PATIENCE, Gate, locked
from .migrate import migrate
from .place import check_links, make_folder


def inspect(spool: Spool) -> "os.stat_result | None":
    """The stat of the database file, None when it is missing. Raises DB_INVALID (no file, hard links)."""
    try:
        info = os.stat(raw(spool.db))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpoolctlError(
            "DB_INVALID", f"{spool.db}: {error.strerror}", "name another database with --db PATH"
        ) from None
    if (info.st_mode & 0o170000) != 0o100000:
        raise SpoolctlError("DB_INVALID", f"{spool.db} is not a file", "name another database with --db PATH")
    check_links(spool.db, info)
    return info


def opened(spool: Spool, info: os.stat_result) -> "tuple[Db, int]":
    """(the connection, its schema version; 0 for a database that is still empty).

    Raises DB_INVALID for a foreign or newer one, sqlite3.Error.
    """
    conn = connect(spool)
    try:
        version = conn.execute("PRAGMA user_version").fetchone()[0]
        application = conn.execute("PRAGMA application_id").fetchone()[0]
        if application != ddl.APPLICATION_ID:
            # SQLite itself takes a file of one byte for an empty database.
            foreign = version or info.st_size == 1
            if foreign or conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise SpoolctlError(
                    "DB_INVALID",
                    f"{spool.db} is not a spoolctl database",
                    "name another database with --db PATH",
                )
        elif version > ddl.VERSION:
            raise SpoolctlError(
                "DB_INVALID",
                f"{spool.db} has schema {version}, newer than {ddl.VERSION}",
                "upgrade spoolctl",
            )
    except BaseException:
        conn.close()
        raise
    return Db(conn, spool, (info.st_dev, info.st_ino)), version


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
        migrate(db)
    return db


def open_writer(spool: Spool, create: bool = False) -> Db:
    """Open for writing; with `create` a missing or empty database is made, directories too.

    Without it a missing one answers as an empty one, and nothing is made.
    """
    info = inspect(spool)
    if info is None or info.st_size == 0:
        if not create:
            return stand_in(spool)
        return make(spool)
    db, version = opened(spool, info)
    if version == ddl.VERSION:
        return db
    if version == 0:
        db.close()
        if not create:
            return stand_in(spool)
        return make(spool)
    migrate(db)
    return db


def make(spool: Spool) -> Db:
    """Make the database (and its directories), or find that somebody else just did. Raises SpoolctlError."""
    folder = os.path.dirname(spool.db)
    make_folder(folder)
    try:
        # The file's mode is the mode of its -wal and -shm too: private before the first byte.
        os.close(os.open(raw(spool.db), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise of_os(error, spool.db) or error from None
    info = inspect(spool)
    if info is None:
        raise SpoolctlError("CONFLICT", f"{spool.db} was deleted while it was made", "try again")
    gate = Gate(spool)
    gate.enter()
    try:
        db, version = opened(spool, info)
        if version == 0:
            try:
                _create(db)
            except BaseException:
                db.close()
                raise
            _sync(folder)
            db.created = True
    finally:
        gate.leave()
        gate.close()
    if 0 < version < ddl.VERSION:
        migrate(db)
    return db


def _create(db: Db) -> None:
    conn = db.conn
    conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _to_wal(db)
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("BEGIN IMMEDIATE")
    try:
        ddl.create(conn.execute, CONTRACT_VERSION)
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def _to_wal(db: Db) -> None:
    """The switch to WAL ignores the busy handler, and a reader may be looking: try again."""
    deadline = clock.monotonic() + PATIENCE
    while True:
        try:
            db.conn.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if clock.monotonic() > deadline:
                raise locked(db.spool.db) from None
        clock.sleep(0.001 + os.urandom(1)[0] / 255 * 0.004)


def _sync(folder: str) -> None:
    """A new file is safe only when its directory is."""
    fd = os.open(raw(folder), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
