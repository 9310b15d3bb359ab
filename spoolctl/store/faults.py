"""What a database's or the system's error is called: one table, by code where there is one.

Python 3.10 gives no `sqlite_errorcode`; there SQLite's fixed messages stand in for the codes.
"""

import errno

from ..errors import SpoolctlError

# primary result code -> (our code, SQLite's fixed message)
TABLE = {
    3: ("DB_READONLY", "access permission denied"),
    5: ("LOCKED", "database is locked"),
    6: ("LOCKED", "database table is locked"),
    8: ("DB_READONLY", "attempt to write a readonly database"),
    10: ("INTERNAL", "disk I/O error"),
    11: ("DB_INVALID", "database disk image is malformed"),
    13: ("DISK_FULL", "database or disk is full"),
    14: ("DB_INVALID", "unable to open database file"),
    15: ("LOCKED", "locking protocol"),
    23: ("DB_READONLY", "authorization denied"),
    26: ("DB_INVALID", "file is not a database"),
}

ADVICE = {
    "LOCKED": "another process is writing, try again",
    "DISK_FULL": "make room on the device, then try again",
    "DB_READONLY": "make the database and its directory readable and writable for this user",
    "DB_INVALID": "name another database with --db PATH, or restore this one from a backup",
    "INTERNAL": "try again, and check the device if it stays",
}

_MISSING = ("no such table", "no such column")  # of a schema that is not ours any more
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_READONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def primary(error: Exception) -> "int | None":
    """SQLite's primary result code of a sqlite3 exception, None when it is no such error."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return int(code) & 0xFF
    message = str(error)
    for number, (_, fixed) in TABLE.items():
        if message.startswith(fixed):
            return number
    # The one corruption with a message of its own; and what has the general code 1.
    if message.startswith("malformed database schema"):
        return 11
    return 1 if message.startswith(_MISSING) else None


def is_busy(error: Exception) -> bool:
    return primary(error) in (5, 6, 15)


def translated(error: Exception, path: str) -> SpoolctlError:
    """The SpoolctlError for a sqlite3 exception of the database at `path`."""
    number = primary(error)
    code = TABLE[number][0] if number in TABLE else "INTERNAL"
    if number == 14:
        code = _cannot_open(path)
    if number == 10 and _device_full(path):
        code = "DISK_FULL"
    if number == 1 and str(error).startswith(_MISSING):
        code = "DB_INVALID"
    where = f"{path}: " if path else ""
    return SpoolctlError(code, f"{where}{error}; {ADVICE[code]}", _remedy(code, path))


def _remedy(code: str, path: str) -> str:
    """The command that shows how it stands; `path` is where it went wrong, empty where that is not known."""
    if code == "DISK_FULL":
        return _room(path)
    return "spoolctl status" if code == "LOCKED" else "spoolctl doctor"


def _room(path: str) -> str:
    """The line that shows how full the file system of `path` is."""
    import os

    from ..paths import raw
    from ..terminal import quoted

    folder = os.path.dirname(path) or path
    while folder and not os.path.isdir(raw(folder)):
        folder = os.path.dirname(folder)
    return f"df -h {quoted(folder)}" if folder else "df -h"


def _cannot_open(path: str) -> str:
    """Not readable, or without a writable directory for the WAL: read-only. Anything else: invalid."""
    import os

    from ..paths import raw

    file = raw(path)
    readable = os.access(file, os.R_OK)
    if os.path.exists(file) and not (readable and os.access(os.path.dirname(file), os.W_OK)):
        return "DB_READONLY"
    return "DISK_FULL" if _device_full(path) else "DB_INVALID"


def _device_full(path: str) -> bool:
    import os

    from ..paths import raw

    try:
        room = os.statvfs(os.path.dirname(raw(path)) or b".")
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 65_536


def of_os(error: OSError, path: "str | None" = None) -> "SpoolctlError | None":
    """The SpoolctlError for an OSError of file work, None when it has no code of its own."""
    name = error.filename
    where = path or (name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or ""))
    message = f"{where}: {error.strerror}" if where else str(error.strerror)
    code = "DISK_FULL" if error.errno in _NO_SPACE else "DB_READONLY" if error.errno in _READONLY else None
    return SpoolctlError(code, f"{message}; {ADVICE[code]}", _remedy(code, where)) if code else None
