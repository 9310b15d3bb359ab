"""Checks of the database itself: that it opens, is free, is ours, and is whole as far as a moment tells."""

import os

from .. import clock
from ..contract import limits
from ..paths import look, owned, raw
from ..store import ddl, health
from ..store.place import in_folder
from ..terminal import quoted
from . import runner
from .bound import Bound
from .runner import Outcome, Scene, failed, may, passed, warned

SMALL = 16 * 1024 * 1024  # bytes of a database whose pages are all looked at, without --deep too
WHOLE = 4.0  # seconds for that: it takes a fraction of one, but the machine may do other things
MOMENT = 0.3  # seconds to look for damaged pages in a larger one
HELD = limits.LOCK_PATIENCE  # one and the same process may have the write lock so long: a call waits for it
PAUSE = 0.05
WAL_WARN = 64 * 1024 * 1024
LOCKS = "/proc/locks"
WRITE_LOCK = 120  # the byte of the -shm file on which whoever writes has a lock


def sqlite_open_readwrite(scene: Scene) -> Outcome:
    """Whether it can be read and written. Only reading is tried: a connection that may write would write."""
    spool = scene.spool
    assert scene.info is not None
    if not may(spool.db, os.R_OK):
        mend = f"chmod u+rw {quoted(spool.db)}" if in_folder(spool.db) and owned(spool.db) else look(spool.db)
        return failed(f"{spool.db} cannot be read by this user", mend)
    scene.stamp = health.stamp(spool)
    scene.db, scene.version = health.look(spool, scene.info)  # proven to be ours
    files = [spool.db, *(spool.db + suffix for suffix in ("-wal", "-shm") if _there(spool.db + suffix))]
    shut = [path for path in files if not may(path, os.R_OK | os.W_OK)]
    if shut:
        mend = f"chmod u+rw {runner.words(shut)}" if all(map(owned, shut)) else look(spool.db)
        return failed(f"{', '.join(shut)} cannot be written by this user", mend)
    with Bound(scene.db.conn, WHOLE if scene.db_bytes() + scene.wal_bytes() <= SMALL else MOMENT):
        broken = health.of_pages(health.problems(scene.db))
        if broken:
            message = f"the database is damaged: {broken[0]}; copy it before anything else"
            return failed(message, look(os.path.dirname(spool.db)))
    writers = _writers(scene)
    if writers is None:
        return passed("this user may write it; whether somebody keeps it locked cannot be told here")
    holder = _holder(scene, writers)
    if holder is not None:
        return failed(
            f"process {holder} has had the write lock for {HELD:g} s: until it lets go, no job can be added",
            f"ps -fp {holder}",
        )
    return passed("it opens, and this user may write it")


def _there(path: str) -> bool:
    return os.path.exists(raw(path))


def _holder(scene: Scene, kept: "set[int]") -> "int | None":
    """The pid of one of those that write which does not come to an end.

    Where many write, the lock is never free for long, but each has it for milliseconds.
    """
    deadline = clock.monotonic() + HELD
    while kept and clock.monotonic() < deadline:
        clock.sleep(PAUSE)
        kept &= _writers(scene) or set()
    return min(kept, default=None)


def _writers(scene: Scene) -> "set[int] | None":
    """The processes that have the gate or SQLite's write lock at this moment, as far as they can be seen.

    None where the system has no table of locks.
    """
    try:
        with open(LOCKS, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return None
    spool = scene.spool
    whole, index = (_number(spool.gate), _number(spool.db)), _number(spool.db + "-shm")
    found = set()
    for line in lines:
        fields = line.split()
        if len(fields) != 8 or fields[3] != b"WRITE":  # those who wait have a mark more
            continue
        pid, where, first, last = fields[4:]
        # The file itself is locked for writing only against all others; the index, byte by byte.
        writes = int(first) <= WRITE_LOCK and (last == b"EOF" or int(last) >= WRITE_LOCK)
        if where in whole or (where == index and writes):
            found.add(int(pid))
    return {pid for pid in found if pid > 0}


def _number(path: str) -> bytes:
    """A file as /proc/locks names it."""
    try:
        info = os.stat(raw(path))
    except OSError:
        return b"none"
    return b"%02x:%02x:%d" % (os.major(info.st_dev), os.minor(info.st_dev), info.st_ino)


def schema_version(scene: Scene) -> Outcome:
    version, spool = scene.version, scene.spool
    assert version is not None
    if version == 0:
        message = "there is no schema in it yet; the first add makes it"
        return warned(message, None, stops=True)
    if version > ddl.VERSION:
        from ..store.db import newer

        error = newer(spool, version)
        return failed(error.message, "spoolctl --version")
    if version < ddl.VERSION:
        if not health.migratable(version):
            return failed(f"{spool.db} has schema {version}, which this version cannot read", look(spool.db))
        message = f"schema {version} is brought up to {ddl.VERSION} by the next call"
        return warned(message, scene.ours("status"), stops=True)
    lacking = health.missing(scene.open_db)
    if lacking:
        return failed(f"schema {version}, but without {', '.join(lacking[:5])}", look(spool.db))
    scene.sound = True
    return passed(f"schema {version}")


def contract_metadata(scene: Scene) -> Outcome:
    strange = health.strangeness(scene.open_db)
    if strange:
        return failed(strange, look(scene.spool.db))
    return passed("it says that it is ours, and of this contract")


def wal_size(scene: Scene) -> Outcome:
    from ..terminal import size

    count = scene.wal_bytes()
    if count <= WAL_WARN:
        return passed(f"the log has {size(count)}")
    message = f"the log has {size(count)}: some process reads an old state, or the last writers were killed"
    return warned(message, scene.ours("status"))
