"""One connection to the queue's file: what may be opened, and the only BEGIN.

A write enters the gate, then BEGIN IMMEDIATE. The promise of durability is chosen per transaction
(`full`), and the pragma is switched before BEGIN.

Never open, copy or read the database, its -wal or its -shm by hand here: closing any descriptor of
a file drops the process's POSIX locks on it. stat only.
"""

import os
import sys

from .. import CONTRACT_VERSION, hooks
from ..contract.limits import LOCK_PATIENCE
from ..errors import SpoolctlError
from ..paths import Spool, raw, size_of
from . import ddl, sqlite3
from .gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]  # a table's row by column, or an answer's object by key

ADD_TRIGGER = 16 * 1024 * 1024  # bytes of WAL above which `add` makes a checkpoint
WORK_TRIGGER = 4 * 1024 * 1024  # bytes above which a worker does

# What stays of the WAL when it starts anew. Below the trigger, or every commit would trigger again; but
# only just, for a commit that overwrites old blocks syncs twice as fast as one that makes the file grow.
WAL_KEPT = WORK_TRIGGER - 64 * 1024

_MODE = {False: "PRAGMA synchronous = NORMAL", True: "PRAGMA synchronous = FULL"}


class Replaced(SpoolctlError):
    """The file is no longer the queue: it was deleted or replaced."""


class Migrated(SpoolctlError):
    """Another version changed the schema under this process."""


class Db:
    """A connection with its place and its gate."""

    def __init__(self, conn: sqlite3.Connection, spool: Spool, file: "tuple[int, int] | None") -> None:
        self.conn = conn
        self.spool = spool
        self.file = file  # (device, inode), None for the empty stand-in
        self.created = False
        self.gate = Gate(spool)
        self.pid = os.getpid()
        self._full: "bool | None" = None
        self._write = _Write(self)
        self._read = _Read(self)
        self.execute = conn.execute

    @property
    def exists(self) -> bool:
        """Whether there is a file behind it; the stand-in of a missing database has none."""
        return self.file is not None

    def write(self, full: bool = True, any_schema: bool = False, told: "bool | None" = None) -> "_Write":
        """A write transaction: committed at the end of the block, rolled back by an exception.

        full: the commit survives power loss (synchronous FULL), else only a crash of processes.
        any_schema: go on although another version migrated the file: for results that would be lost.
        told: whoever waits is told of it, if it changed anything. What is promised in full is what others may
        wait for; of the rest only what says so: never a claim, a leader, a registration, a checkpoint.
        Raises LOCKED, DB_INVALID (Replaced, Migrated).
        """
        self._write.full = full
        self._write.any_schema = any_schema
        self._write.told = full if told is None else told
        return self._write

    def promise(self, full: bool) -> None:
        """Choose the durability of the next write; done ahead, it is one statement less in its way."""
        if self._full is not full:
            self.conn.execute(_MODE[full])
            self._full = full

    def read(self) -> "_Read":
        """A block whose statements all see one state of the database."""
        return self._read

    def data_version(self) -> int:
        """A number that changes when another connection committed."""
        return int(self.conn.execute("PRAGMA data_version").fetchone()[0])

    def tell(self) -> None:
        """Touch the wake file. After a commit, which stands whatever becomes of this."""
        try:
            try:
                os.utime(raw(self.spool.wake), follow_symlinks=False)
            except FileNotFoundError:
                from .. import watch

                watch.make(self.spool)  # who watched the one before has seen it go
        except OSError:
            pass  # those who wait look every poll interval all the same

    def impatient(self, seconds: float) -> None:
        """Wait no longer than this for anybody: for a loop that must not stand still."""
        self.gate.patience, self.gate.blocking = seconds, False
        self.conn.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def wal_bytes(self) -> int:
        """The size of the WAL, 0 when there is none."""
        return size_of(self.spool.db + "-wal")

    def one(self, sql: str, values: "Row | list[Any] | tuple[()]" = ()) -> "tuple[Any, ...] | None":
        return self.conn.execute(sql, values).fetchone()

    def all(self, sql: str, values: "Row | list[Any] | tuple[()]" = ()) -> "list[tuple[Any, ...]]":
        return self.conn.execute(sql, values).fetchall()

    def close(self) -> None:
        if self.pid == os.getpid():
            self.conn.close()
        self.gate.close()

    def check_in_place(self) -> None:
        """Refuse to write into a file that is no longer the queue. Raises DB_INVALID."""
        try:
            info = os.stat(raw(self.spool.db))
        except (FileNotFoundError, NotADirectoryError):
            info = None
        if info is None or (info.st_dev, info.st_ino) != self.file:
            raise Replaced(
                "DB_INVALID",
                f"{self.spool.db} was deleted or replaced: start again on the database that is there now",
                "spoolctl doctor",
            )


class _Write:
    """The block of `Db.write`; one object per connection, since writes do not nest."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self.full = True
        self.any_schema = False
        self.told = True
        self.changes = 0

    def __enter__(self) -> sqlite3.Connection:
        db = self.db
        self.changes = db.conn.total_changes
        if db.pid != os.getpid():
            message = "this connection belongs to the parent process: open a new one"
            raise SpoolctlError("INTERNAL", message, "spoolctl doctor")
        conn = db.conn
        if db.file is None:
            conn.execute("BEGIN")
            return conn
        db.promise(self.full)
        db.gate.enter()
        try:
            conn.execute("BEGIN IMMEDIATE")
            db.check_in_place()
            version = ddl.VERSION if self.any_schema else conn.execute("PRAGMA user_version").fetchone()[0]
            if version != ddl.VERSION:
                raise Migrated(
                    "DB_INVALID",
                    f"{db.spool.db} was migrated to schema {version} underneath: "
                    "restart this process with the new version",
                    "spoolctl doctor",
                )
            hooks.at("begun")
        except BaseException:
            self._back()
            raise
        return conn

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        db = self.db
        if kind is not None:
            self._back()
            return
        try:
            hooks.at("to commit")
            db.conn.execute("COMMIT")
        except BaseException:
            self._back()
            raise
        hooks.at("committed")
        if db.file is not None:
            db.gate.leave()
            hooks.at("gate left")
            if self.told and db.conn.total_changes != self.changes:
                db.tell()

    def _back(self) -> None:
        """Roll back what is still open (a full disk rolls back by itself) and leave the gate."""
        db = self.db
        try:
            if db.conn.in_transaction:
                db.conn.execute("ROLLBACK")
        finally:
            if db.file is not None:
                db.gate.leave()


class _Read:
    def __init__(self, db: Db) -> None:
        self.db = db

    def __enter__(self) -> sqlite3.Connection:
        self.db.conn.execute("BEGIN")
        return self.db.conn

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.db.conn.in_transaction:
            self.db.conn.execute("COMMIT" if kind is None else "ROLLBACK")


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def connect(spool: Spool, patience: float = LOCK_PATIENCE, how: bytes = b"mode=rw") -> sqlite3.Connection:
    """A connection with our pragmas to a file that exists, `how` as in a URI. Raises sqlite3.Error."""
    name = raw(spool.db).replace(b"%", b"%25").replace(b"?", b"%3f").replace(b"#", b"%23")
    uri = b"file:" + name + b"?" + how
    conn = sqlite3.connect(
        uri.decode("utf-8", "surrogateescape") if name.isascii() else _escaped(uri),
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    conn.text_factory = _decode  # a damaged text must not hide other rows
    conn.execute("PRAGMA wal_autocheckpoint = 0")
    conn.execute(f"PRAGMA journal_size_limit = {WAL_KEPT}")
    if sys.platform == "darwin":
        conn.execute("PRAGMA fullfsync = ON")
    return conn


def _escaped(uri: bytes) -> str:
    return "".join(chr(b) if b < 128 else f"%{b:02x}" for b in uri)


def stand_in(spool: Spool) -> Db:
    """What a database that does not exist answers with: an empty one in memory."""
    conn = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    ddl.create(conn.execute, CONTRACT_VERSION)
    return Db(conn, spool, None)


def opened(spool: Spool, info: os.stat_result) -> "tuple[Db, int]":
    """(the connection, its schema version; 0 for a database that is still empty).

    Raises DB_INVALID for a foreign or newer one, sqlite3.Error.
    """
    conn = connect(spool)
    try:
        version = recognized(conn, spool, info)
        if version > ddl.VERSION:
            raise newer(spool, version)
    except BaseException:
        conn.close()
        raise
    return Db(conn, spool, (info.st_dev, info.st_ino)), version


def recognized(conn: sqlite3.Connection, spool: Spool, info: os.stat_result) -> int:
    """The schema version of a database of ours, 0 for one that is still empty. Raises DB_INVALID."""
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    application = conn.execute("PRAGMA application_id").fetchone()[0]
    if application != ddl.APPLICATION_ID:
        # SQLite itself takes a file of one byte for an empty database.
        foreign = version or info.st_size == 1
        if foreign or conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            # Or somebody made it between these looks: then it is ours by now.
            if conn.execute("PRAGMA application_id").fetchone()[0] != ddl.APPLICATION_ID:
                raise SpoolctlError(
                    "DB_INVALID",
                    f"{spool.db} is not a spoolctl database: name another one with --db PATH",
                    "spoolctl doctor",
                )
            version = conn.execute("PRAGMA user_version").fetchone()[0]
    return int(version)


def newer(spool: Spool, version: int) -> SpoolctlError:
    message = f"{spool.db} has schema {version}, newer than {ddl.VERSION}: upgrade spoolctl"
    return SpoolctlError("DB_INVALID", message, "spoolctl doctor")
