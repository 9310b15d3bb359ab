"""How an older schema becomes the present one, step by step."""

from .. import hooks
from ..errors import SpoolctlError
from . import ddl
from .db import Db

# from version -> the statements that make it one newer
STEPS: "dict[int, str]" = {}


def migrate(db: Db) -> None:
    """Bring an older schema to the present one, step by step, each in a transaction of its own that
    reads the version again. Raises LOCKED, sqlite3.Error."""
    db.gate.enter()
    try:
        conn = db.conn
        conn.execute("PRAGMA synchronous = FULL")
        db._full = True
        while True:
            conn.execute("BEGIN IMMEDIATE")
            try:
                version = conn.execute("PRAGMA user_version").fetchone()[0]
                if version >= ddl.VERSION:
                    conn.execute("ROLLBACK")
                    return
                if version not in STEPS:
                    raise SpoolctlError(
                        "DB_INVALID",
                        f"{db.spool.db} has schema {version}, which this version cannot read: "
                        "name another database with --db PATH",
                        "spoolctl doctor",
                    )
                for statement in ddl.statements(STEPS[version]):
                    conn.execute(statement)
                conn.execute(f"PRAGMA user_version = {version + 1}")
                hooks.at("migrate: step to commit")
                conn.execute("COMMIT")
                hooks.at("migrate: step committed")
            except BaseException:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                raise
    finally:
        db.gate.leave()
