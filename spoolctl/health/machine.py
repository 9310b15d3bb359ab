"""Checks of the machine: SQLite, room, and whether it can be proven here that a worker lives."""

import os
import sqlite3
import sys

from ..paths import raw
from ..terminal import quoted, size
from .runner import Outcome, Scene, failed, passed, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row

OLDEST = (3, 34)
ROOM_WARN, ROOM_FAIL = 256 * 1024 * 1024, 16 * 1024 * 1024
FILES_WARN, FILES_FAIL = 1000, 16  # a job needs its directories and two files
SHOWN = 3  # jobs that are named


def _version_line() -> str:
    return f"{quoted(sys.executable or 'python3')} -c 'import sqlite3; print(sqlite3.sqlite_version)'"


def sqlite_version(scene: Scene) -> Outcome:
    if sqlite3.sqlite_version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        message = f"SQLite {sqlite3.sqlite_version} is older than {needed}: use a Python with a newer one"
        return failed(message, _version_line())
    return passed(f"SQLite {sqlite3.sqlite_version}")


def resets_wal(version: "tuple[int, ...]") -> bool:
    """Whether this SQLite can lose a commit that resets the log while a checkpoint starts (SPEC 7)."""
    mended = version[:2] in ((3, 44), (3, 50)) and version >= {44: (3, 44, 6), 50: (3, 50, 7)}[version[1]]
    return (3, 7, 0) <= version < (3, 51, 3) and not mended


def sqlite_wal_reset(scene: Scene) -> Outcome:
    if not resets_wal(sqlite3.sqlite_version_info):
        return passed(f"SQLite {sqlite3.sqlite_version} does not have the WAL-reset bug")
    return warned(
        f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug (mended in 3.51.3); the guard is on: "
        "checkpoints are made under the write lock, so nothing is lost. Let no other program write the file.",
        None,  # there is nothing to mend
    )


def disk_space(scene: Scene) -> Outcome:
    import resource

    base = scene.base
    largest, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest != resource.RLIM_INFINITY and largest < ROOM_FAIL + scene.db_bytes():
        mend = "ulimit -S -f unlimited" if hard == resource.RLIM_INFINITY else "ulimit -H -f"
        return failed(f"this process may not make a file larger than {size(largest)} (ulimit -f)", mend)
    room = os.statvfs(raw(base))
    free = room.f_bavail * room.f_frsize
    files = room.f_favail if room.f_files else FILES_WARN
    if free < ROOM_FAIL:
        message = f"{size(free)} are free beside {base}; it needs {size(ROOM_FAIL)}"
        return failed(message, f"df -h {quoted(base)}")
    if files < FILES_FAIL:
        return failed(f"{files} more files can be made beside {base}", f"df -i {quoted(base)}")
    if free < ROOM_WARN:
        return warned(f"{size(free)} are free beside {base}", f"df -h {quoted(base)}")
    if files < FILES_WARN:
        return warned(f"{files} more files can be made beside {base}", f"df -i {quoted(base)}")
    return passed(f"{size(free)} are free")


def worker_identity(scene: Scene) -> Outcome:
    """What this machine lets us prove, then the running jobs whose owner it cannot judge."""
    blind = _blindness()
    if scene.sound:
        found = _owners(scene)
        if found is not None:
            return found
    if blind:
        return warned(f"{blind}: a dead worker's job may have to be taken back by hand", None)
    return passed("it can be proven whether a worker of this machine lives")


def _blindness() -> str:
    from ..work import identity, proc

    if proc.boot_id() is None:
        return "this boot has no id that can be read"
    if proc.pid_namespace() is None:
        return "the pid namespace cannot be read"
    if proc.stat(os.getpid()) is None:
        return "the start times of processes cannot be read"
    if sys.platform.startswith("linux") and identity.process_witness(1, 1) == identity.UNKNOWN:
        return "processes of other users are hidden (hidepid)"
    return ""


def _owners(scene: Scene) -> "Outcome | None":
    """A warning about the running jobs of workers that cannot be judged, or live in another namespace."""
    from ..store import owners, workers
    from ..work import identity

    db = scene.open_db
    elsewhere: "list[str]" = []
    unknown: "list[str]" = []
    first = 0
    for worker in workers.all_rows(db):
        held = sorted(owners.held_by(db, int(worker["instance"])))
        if not held:
            continue
        judged = identity.liveness(db.spool, worker)
        if judged == identity.UNKNOWN:
            first = first or held[0]
            unknown.append(_named(worker, held))
        elif judged == identity.ALIVE and not identity.same_place(worker):
            elsewhere.append(_named(worker, held))
    if unknown:
        return warned(
            f"it cannot be told whether the owner lives of {'; '.join(unknown[:SHOWN])}. Once you know that "
            "it does not, take the job back by hand",
            scene.ours(f"retry {first} --force --unverified"),
        )
    if elsewhere:
        message = f"in another pid namespace, judged by its lock alone: {'; '.join(elsewhere[:SHOWN])}"
        return warned(message, None)
    return None


def _named(worker: "Row", held: "list[int]") -> str:
    jobs = ", ".join(map(str, held[:SHOWN])) + (" ..." if len(held) > SHOWN else "")
    return f"job {jobs} (worker {worker['label']}, pid {worker['pid']} on {worker['host']})"
