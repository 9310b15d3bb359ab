"""How a database comes to be.

Making it holds the gate, so that many processes may open a database that does not exist yet. A process
that dies on any line leaves an empty file or a whole schema: DDL is one transaction.
"""

import os

from .. import CONTRACT_VERSION, clock, hooks
from ..contract.limits import LOCK_PATIENCE
from ..errors import SpoolctlError
from ..paths import Spool, raw
from . import ddl, sqlite3
from .db import Db, opened
from .faults import is_busy, of_os
from .file import check_beside, inspect
from .gate import Gate, locked
from .migrate import migrate
from .place import make_folder, sync_folder


def make(spool: Spool) -> Db:
    """Make the database (and its directories), or find that somebody else just did. Raises SpoolctlError."""
    folder = os.path.dirname(spool.db)
    make_folder(folder)
    check_beside(spool)
    hooks.at("make: folder made")
    try:
        # The file's mode is the mode of its -wal and -shm too: private before the first byte.
        os.close(os.open(raw(spool.db), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        message = f"cannot make {spool.db}: {error.strerror}; name another place with --db PATH"
        raise of_os(error, spool.db) or SpoolctlError("DB_INVALID", message, "spoolctl doctor") from None
    hooks.at("make: file made")
    info = inspect(spool)
    if info is None:
        message = f"{spool.db} was deleted while it was made: try again"
        raise SpoolctlError("CONFLICT", message, "spoolctl status")
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
            hooks.at("make: schema committed")
            sync_folder(folder)
            hooks.at("make: synced")
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
    hooks.at("make: in WAL mode")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("BEGIN IMMEDIATE")
    try:
        ddl.create(conn.execute, CONTRACT_VERSION)
        hooks.at("make: schema to commit")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def _to_wal(db: Db) -> None:
    """The switch to WAL ignores the busy handler, and a reader may be looking: try again."""
    deadline = clock.monotonic() + LOCK_PATIENCE
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
