"""Whether the database's file, and what stands beside it, may be opened (SPEC 7).

Only stat: nothing is opened here, and nothing made.
"""

import os

from ..errors import SpoolctlError
from ..paths import LOGS, Spool, look, raw


def inspect(spool: Spool) -> "os.stat_result | None":
    """The stat of the database file, None when it is missing. Raises DB_INVALID (no file, hard links),
    SAFETY_BLOCK (a log beside it that is a stranger's)."""
    try:
        info = os.stat(raw(spool.db))
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{spool.db}: {error.strerror}; name another database with --db PATH"
        raise SpoolctlError("DB_INVALID", message, "spoolctl doctor") from None
    if (info.st_mode & 0o170000) != 0o100000:
        message = f"{spool.db} is not a file: name another database with --db PATH"
        raise SpoolctlError("DB_INVALID", message, "spoolctl doctor")
    if info.st_nlink > 1:
        raise SpoolctlError(
            "DB_INVALID",
            # Each name has a WAL of its own.
            f"{spool.db} has {info.st_nlink} hard links: keep one name for it; to share it, "
            "mount the directory",
            "spoolctl doctor",
        )
    check_plain([spool.db + suffix for suffix in LOGS])
    if not _alone(spool.db, info):
        _check_logs(spool.db, info)
    return info


def check_beside(spool: Spool) -> None:
    """Refuse to make a database beside something that stands in the place of its files. Raises DB_INVALID."""
    check_plain([*(spool.db + suffix for suffix in LOGS), spool.gate, spool.wake])


def check_plain(paths: "list[str]") -> None:
    """Refuse what stands in the place of a log, and is no file. Raises DB_INVALID."""
    for path in paths:
        try:
            mode = os.lstat(raw(path)).st_mode
        except OSError:
            continue
        if mode & 0o170000 != 0o100000:
            raise not_plain(path)


def not_plain(path: str) -> SpoolctlError:
    """SQLite would wait for ever on what is no file, or fail without a reason."""
    message = f"{path} is not a file: remove it, or name another database with --db PATH"
    return SpoolctlError("DB_INVALID", message, look(path))


def _check_logs(path: str, info: os.stat_result) -> None:
    """Refuse a log or journal that a stranger put beside a private database: SQLite would take over what
    is written there, as if it had been written by us. Raises SAFETY_BLOCK."""
    if info.st_mode & 0o002:
        return  # everybody may write the database itself
    group = info.st_gid if info.st_mode & 0o020 else None
    for suffix in LOGS:
        try:
            log = os.lstat(raw(path + suffix))
        except OSError:
            continue
        if log.st_uid not in (info.st_uid, os.geteuid(), 0) and log.st_gid != group:
            raise SpoolctlError(
                "SAFETY_BLOCK",
                f"{path}{suffix} belongs to uid {log.st_uid}: it would change the queue. Remove it, and "
                "keep the database where only you may make files",
                look(path + suffix),
            )


def _alone(path: str, info: os.stat_result) -> bool:
    """Whether nobody else may make files beside the database."""
    try:
        where = os.stat(raw(os.path.dirname(path)))
    except OSError:
        return True
    return not where.st_mode & 0o022 and where.st_uid in (info.st_uid, os.geteuid(), 0)
