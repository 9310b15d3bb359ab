"""Make the stored database of the present schema: python tests/databases/make.py

Once per schema version, before the next one changes it: the migration test opens each of these with the
code of its day. It holds a job in every state, attempts, events, tags, keys, a worker of another boot,
and a mark of an unfinished prune; no path of the machine that made it.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from spoolctl import CONTRACT_VERSION  # noqa: E402
from spoolctl.store import ddl  # noqa: E402

T = 1_700_000_000.25  # everything happened here
OTHER_BOOT = "00000000-0000-0000-0000-000000000001"

JOB = {
    "kind": "command", "queue": "default", "state": "queued", "priority": 0, "next_run_at": T,
    "argv": '["true"]', "payload": None, "cwd": "/", "env": None, "captured_env": '{"PATH":"/usr/bin:/bin"}',
    "timeout": 300, "max_retries": 3, "max_crashes": 10, "backoff_base": 2, "backoff_factor": 2,
    "backoff_max": 60, "backoff_jitter": 0, "max_output": None, "keep_children": 0, "key": None,
    "note": None, "asked": None, "created_at": T, "started_at": None, "finished_at": None, "attempts": 0,
    "crashes": 0, "attempt_no": 0, "owner": None, "request": None, "request_detail": None,
    "requested_at": None, "request_seen_at": None, "last_exit_code": None, "last_signal": None,
    "last_error": None, "last_failure_reason": None,
}  # fmt: skip

ATTEMPT = {
    "attempt_no": 1, "state": "succeeded", "worker": 1, "worker_label": "w1", "worker_pid": 4711,
    "boot_id": OTHER_BOOT, "pid_ns": "pid:[1]", "began": 10.5, "token": "t", "pid": 4712, "pid_start": 1000,
    "started_at": T + 1, "finished_at": T + 2, "exit_code": 0, "signal": None, "error": None,
    "failure_reason": None, "lease_expires_at": None, "lease_boot": None, "lease_deadline": None,
    "ending_since": None, "ending_pids": None, "ending_why": None,
}  # fmt: skip

EXITED = {"exit_code": 3, "error": "exit 3", "failure_reason": "process_exit", "state": "failed"}
LAST = {"last_exit_code": 3, "last_error": "exit 3", "last_failure_reason": "process_exit"}
UNDER_WAY = {"state": "running", "finished_at": None, "exit_code": None}


def insert(conn: sqlite3.Connection, table: str, row: dict[str, object]) -> int:
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    return int(conn.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row).lastrowid or 0)


def job(
    conn: sqlite3.Connection,
    ran: tuple[dict[str, object], ...] = (),
    events: tuple[str, ...] = (),
    tags: dict[str, str] | None = None,
    **fields: object,
) -> int:
    job_id = insert(conn, "jobs", JOB | {"attempt_no": len(ran)} | fields)
    for number, attempt in enumerate(ran, 1):
        token = f"token-{job_id}-{number}"
        insert(conn, "attempts", ATTEMPT | {"job_id": job_id, "attempt_no": number, "token": token} | attempt)
    for n, event in enumerate(("added", *events)):
        row = {
            "job_id": job_id,
            "at": T + n,
            "event": event,
            "worker_id": "w1" if n else None,
            "detail": None,
        }
        insert(conn, "job_events", row)
    for key, value in (tags or {}).items():
        insert(conn, "job_tags", {"job_id": job_id, "key": key, "value": value})
    return job_id


def fill(conn: sqlite3.Connection) -> None:
    worker = insert(
        conn,
        "workers",
        {
            "label": "w1", "pid": 4711, "pid_start": 999, "boot_id": OTHER_BOOT, "pid_ns": "pid:[1]",
            "host": "host", "lock_dev": 1, "lock_ino": 2, "lane": "default", "kind": "command",
            "concurrency": 1, "grace": 5.0, "started_at": T,
        },
    )  # fmt: skip
    job(conn, key="nightly", note="é", tags={"team": "a", "run": "1"}, env='{"A":"b"}')
    job(conn, next_run_at=4_000_000_000, asked="at 4000000000", priority=5)
    job(conn, (EXITED,), ("claimed", "failed"), attempts=1, next_run_at=T + 4, started_at=T + 1, **LAST)
    job(conn, (UNDER_WAY,), ("claimed",), state="running", owner=worker, started_at=T + 1)
    job(
        conn, ({},), ("claimed", "succeeded"), state="done", started_at=T + 1, finished_at=T + 2,
        last_exit_code=0, key="nightly", tags={"team": "b"},
    )  # fmt: skip
    job(
        conn, (EXITED, EXITED), ("claimed", "failed", "claimed", "failed", "dead"), state="dead", attempts=2,
        max_retries=1, started_at=T + 1, finished_at=T + 9, argv='["sh","-c","exit 3 # \\udcff"]', **LAST,
    )  # fmt: skip
    job(
        conn, (), ("canceled",), state="canceled", finished_at=T + 1, queue="other",
        timeout=None, max_crashes=None, cwd=b"/tmp/\xff",
    )  # fmt: skip
    job(conn, kind="payload", argv=None, payload='{"resize":"a.jpg"}', cwd=None, captured_env=None)
    conn.execute("INSERT INTO pruned (job_id) VALUES (9999)")


def make(path: Path) -> None:
    path.unlink(missing_ok=True)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("BEGIN IMMEDIATE")
    ddl.create(conn.execute, CONTRACT_VERSION)
    fill(conn)
    conn.execute("COMMIT")
    conn.close()


if __name__ == "__main__":
    target = Path(__file__).resolve().parent / f"v{ddl.VERSION}.db"
    make(target)
    print(f"{target.name}: {target.stat().st_size} bytes")
