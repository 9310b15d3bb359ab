"""Looking at a database without changing a byte of it: how to open it, what it must hold, if it is whole.

An ordinary connection would leave its -shm behind, or take away the -wal of others at its close.
"""

import os

from .. import CONTRACT_VERSION
from ..contract import limits
from ..paths import Spool, raw, size_of
from . import ddl
from .db import Db, connect, recognized, stand_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    Stamp = tuple[int, ...]

NAMES = "SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
META = "SELECT key, value FROM meta"
RECOUNT = "SELECT queue, kind, state, count(*) FROM jobs GROUP BY queue, kind, state"
COUNTED = "SELECT queue, kind, state, n FROM counts WHERE n <> 0"
FIRST_PROBLEMS = "PRAGMA quick_check(20)"

PATIENCE = limits.LOCK_PATIENCE  # for somebody who has the whole file locked: as long as any call


def look(spool: Spool, info: os.stat_result) -> "tuple[Db, int]":
    """(a connection that only reads, its schema version; 0 for a database that is still empty).

    Raises DB_INVALID for a foreign one, sqlite3.Error.
    """
    conn = connect(spool, PATIENCE, _how(spool))
    try:
        version = recognized(conn, spool, info)
    except BaseException:
        conn.close()
        raise
    return Db(conn, spool, (info.st_dev, info.st_ino)), version


def _how(spool: Spool) -> bytes:
    """Without a log the file alone is the database, and is read without any lock. With one, the index that
    others keep of it is read as it is. Only a log without an index needs one made: it stays behind."""
    if not size_of(spool.db + "-wal"):
        return b"mode=ro&immutable=1"
    return b"mode=ro&readonly_shm=1" if os.path.exists(raw(spool.db + "-shm")) else b"mode=ro"


def stamp(spool: Spool) -> "Stamp":
    """Differs when the file was written: then what was read of it without a lock may not fit together."""
    try:
        info = os.stat(raw(spool.db))
    except OSError:
        return ()
    return info.st_ino, info.st_size, info.st_mtime_ns, int(size_of(spool.db + "-wal") > 0)


def missing(db: Db) -> "list[str]":
    """What the present schema has and this database lacks: `table jobs`, `trigger count_insert`."""
    whole = stand_in(db.spool)
    try:
        wanted = {str(name) for (name,) in whole.all(NAMES)}
    finally:
        whole.close()
    return sorted(wanted - {str(name) for (name,) in db.all(NAMES)})


def migratable(version: int) -> bool:
    """Whether every step from this older schema to the present one is known."""
    from .migrate import STEPS

    return all(step in STEPS for step in range(version, ddl.VERSION))


def strangeness(db: Db) -> str:
    """What in `meta` is not as this tool writes it, empty when all is well."""
    meta = dict(db.all(META))
    if meta.get("tool") != "spoolctl":
        return f"meta names the tool {meta.get('tool')!r}, not 'spoolctl'"
    if meta.get("contract_version") != CONTRACT_VERSION:
        return f"meta names the contract {meta.get('contract_version')!r}, not {CONTRACT_VERSION!r}"
    return ""


def problems(db: Db) -> "list[str]":
    """What quick_check finds, one line each. A connection that only reads does not try the CHECKs."""
    lines = [line for (text,) in db.all(FIRST_PROBLEMS) for line in str(text).split("\n")]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def of_pages(found: "list[str]") -> "list[str]":
    """Those that stop every writer. A bad row hinders nobody but its job."""
    return [line for line in found if "page" in line.lower() or "freelist" in line.lower()]


def miscounted(db: Db) -> "list[str]":
    """The lanes and states whose number in `counts` is not the number of rows."""
    with db.read() as conn:
        kept, there = _numbers(conn, COUNTED), _numbers(conn, RECOUNT)
    return [
        f"{queue} {state} ({kind}): {kept.get(key, 0)} counted, {there.get(key, 0)} there"
        for key in sorted(kept.keys() | there.keys())
        if kept.get(key, 0) != there.get(key, 0)
        for queue, kind, state in [key]
    ]


def _numbers(conn: "sqlite3.Connection", statement: str) -> "dict[tuple[str, str, str], int]":
    return {(str(q), str(k), str(s)): int(n) for q, k, s, n in conn.execute(statement)}
