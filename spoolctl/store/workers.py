"""Worker rows: one a process, from its first claim until it leaves or is found dead."""

from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from .db import Row

COLUMNS = (
    "instance", "label", "pid", "pid_start", "boot_id", "pid_ns", "host", "lock_dev", "lock_ino", "lane",
    "kind",
    "concurrency", "grace", "started_at",
)  # fmt: skip
SELECT = f"SELECT {', '.join(COLUMNS)} FROM workers"

ALL = f"{SELECT} ORDER BY instance"
IN_LANE = f"{SELECT} WHERE lane = :lane AND kind = :kind ORDER BY instance"
BY_INSTANCE = f"{SELECT} WHERE instance = :instance"
REGISTER = (
    f"INSERT INTO workers ({', '.join(COLUMNS[1:])}) VALUES ({', '.join(':' + c for c in COLUMNS[1:])})"
)
UNREGISTER_IF_IDLE = """
DELETE FROM workers WHERE instance = :instance
AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'running' AND owner = :instance)
"""


def _rows(found: "list[tuple[Any, ...]]") -> "list[Row]":
    return [dict(zip(COLUMNS, values)) for values in found]


def all_rows(db: Db) -> "list[Row]":
    return _rows(db.all(ALL))


def in_lane(db: Db, lane: str, kind: str) -> "list[Row]":
    return _rows(db.all(IN_LANE, {"lane": lane, "kind": kind}))


def get(db: Db, instance: int) -> "Row | None":
    rows = _rows(db.all(BY_INSTANCE, {"instance": instance}))
    return rows[0] if rows else None


def register(conn: "sqlite3.Connection", row: "Row") -> int:
    """Add a worker inside the caller's transaction. `row` has all columns but instance. Returns it."""
    return int(conn.execute(REGISTER, row).lastrowid or 0)


def unregister(conn: "sqlite3.Connection", instance: int) -> bool:
    """Remove a worker's row, unless a running job still names it as its owner; whether it is gone."""
    conn.execute(UNREGISTER_IF_IDLE, {"instance": instance})
    return conn.execute(BY_INSTANCE, {"instance": instance}).fetchone() is None
