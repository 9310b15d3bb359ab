"""Whether a database may live where it is: links, mounts, file systems, permissions (SPEC 7).

Only stat and the mount table: a file of the database is never opened here.
"""

import os

from ..errors import SpoolctlError
from ..paths import FOLDER, LOGS, Spool, look, owned, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REMOTE = ("9p", "virtiofs", "drvfs", "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "fuse.sshfs")


def mounts() -> "list[tuple[int, str, str]]":
    """(device, mount point, type) of each mount, in mount order; empty where the system has no table."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines:
        left, dash, right = line.partition(b" - ")
        fields = left.split(b" ")
        if not dash or len(fields) < 5:
            continue
        major, _, minor = fields[2].partition(b":")
        point = fields[4]
        if b"\\" in point:
            for code in (b"040", b"011", b"012", b"134"):
                point = point.replace(b"\\" + code, bytes([int(code, 8)]))
        name = point.decode("utf-8", "surrogateescape")
        found.append((os.makedev(int(major), int(minor)), name, right.split(b" ")[0].decode()))
    return found


def filesystem(path: str, table: "list[tuple[int, str, str]] | None" = None) -> "str | None":
    """The type of the file system that holds `path`, None where it cannot be told."""
    table = mounts() if table is None else table
    try:
        device = os.stat(raw(path)).st_dev
    except OSError:
        above = os.path.dirname(path)
        return None if above == path else filesystem(above, table)
    return next((kind for dev, _, kind in reversed(table) if dev == device), None)


def check_filesystem(spool: Spool, file_mount: bool = False) -> None:
    """Refuse file systems whose locks do not hold between machines, and, with `file_mount`, a
    database file that is itself a mount point. Raises DB_INVALID."""
    table = mounts()
    kind = filesystem(spool.db, table)
    if kind in REMOTE:
        raise SpoolctlError(
            "DB_INVALID",
            f"{spool.db} is on {kind}, where locks cannot be trusted: "
            "put the database on a local file system, with --db PATH",
            "spoolctl doctor",
        )
    if file_mount and any(point == spool.db for _, point, _ in table):
        raise SpoolctlError(
            "DB_INVALID",
            f"{spool.db} is mounted as a single file: mount the directory that holds it instead",
            "spoolctl doctor",
        )


def own_group(gid: int) -> bool:
    """Whether a group is this user's private one: its own name, and nobody else in it."""
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return me.pw_gid == gid and me.pw_name == group.gr_name and not set(group.gr_mem) - {me.pw_name}


def check_shared(spool: Spool, allow: bool, is_queue: "Callable[[], bool]") -> "list[tuple[str, str]]":
    """Whether others could put commands into this queue: warnings, or SAFETY_BLOCK without `allow`.

    is_queue: opens it, and says whether there is one; what it raises of a file that is none is raised here,
    for only what is proven to be a queue is offered to be changed.
    """
    found = shared(spool)
    for path, what, refused in found:
        if refused and not allow:
            ours = is_queue() or in_folder(spool.db)
            raise SpoolctlError(
                "SAFETY_BLOCK",
                f"{path} {what}: whoever can write it can run commands as you. Make it yours alone, name "
                "another database with --db PATH, or accept it with --allow-shared",
                (ours and "writable" in what and closing([*wide(spool), path])) or look(path),
            )
    return [("SHARED_PERMISSIONS", f"{path} {what}") for path, what, _ in found]


def in_folder(path: str) -> bool:
    """Whether it lies in a `.spoolctl/`, where everything is the queue's."""
    return os.path.basename(os.path.dirname(path)) == FOLDER


def shared(spool: Spool) -> "list[tuple[str, str, bool]]":
    """(path, what is wrong, whether a worker refuses it) of what others may write or own."""
    folder = os.path.dirname(spool.db)
    try:
        where = os.stat(raw(folder))
    except FileNotFoundError:
        return []  # it is made private
    try:
        info: "os.stat_result | None" = os.stat(raw(spool.db))
    except FileNotFoundError:
        info = None
    if info is not None and (info.st_mode & 0o170000) != 0o100000:
        return []  # no file: opening it says so
    if info is not None and info.st_uid != os.geteuid():
        return [(spool.db, f"belongs to uid {info.st_uid}", True)]
    if info is not None and info.st_mode & 0o022:
        return [(spool.db, "is writable by others", True)]
    if where.st_mode & 0o002 and not where.st_mode & 0o1000:
        return [(folder, "is writable by everybody", True)]
    if where.st_uid not in (os.geteuid(), 0):
        return [(folder, f"belongs to uid {where.st_uid}", True)]
    found = []
    if where.st_mode & 0o020 and not own_group(where.st_gid):
        found.append((folder, "is writable by its group", False))
    path, what = _strange(spool)
    return [*found, (path, what, True)] if what else found


def files(spool: Spool) -> "list[str]":
    """The directory, and what lies in it for the queue."""
    logs = [spool.db + suffix for suffix in LOGS]
    beside = [spool.output, spool.workers, spool.gate, spool.wake]
    return [os.path.dirname(spool.db), spool.db, *logs, *beside]


def wide(spool: Spool) -> "list[str]":
    """What of a queue others may write. A directory may be a group's, or everybody's with the sticky bit, for
    good reasons of its owner."""
    found = []
    for path in files(spool):
        mode = _mode(path)
        bits = 0o022
        if path == os.path.dirname(spool.db):
            bits = 0 if mode & 0o1000 else 0o002
        if mode & bits:
            found.append(path)
    return found


def _mode(path: str) -> int:
    try:
        return os.stat(raw(path)).st_mode
    except OSError:
        return 0


def closing(paths: "list[str]") -> "str | None":
    """The line that takes from others the right to write what is ours of `paths`; None where the last of
    them, which is the one that matters, is not."""
    from ..terminal import quoted

    ours = [path for path in dict.fromkeys(paths) if owned(path)]
    return " ".join(["chmod go-w", *map(quoted, ours)]) if paths[-1] in ours else None


def _strange(spool: Spool) -> "tuple[str, str]":
    """(path, what is wrong) of what stands beside the database and is not ours alone, empty when all is
    well: output would land in it, or its locks be held by others."""
    for path in (spool.output, spool.workers, spool.gate, spool.wake):
        try:
            info = os.stat(raw(path))
        except OSError:
            continue
        if info.st_uid != os.geteuid():
            return path, f"belongs to uid {info.st_uid}"
        if info.st_mode & 0o002:
            return path, "is writable by everybody"
    return "", ""


def make_folder(path: str) -> None:
    """Make a directory and its missing parents, private from the first moment. Raises SpoolctlError."""
    from .faults import of_os

    missing = []
    while path and not os.path.isdir(raw(path)):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(raw(folder), 0o700)
            sync_folder(os.path.dirname(folder))
            if os.path.basename(folder) == ".spoolctl":
                _ignore(folder)
        except OSError as error:
            if isinstance(error, FileExistsError) and os.path.isdir(raw(folder)):
                continue  # another process was faster
            raise of_os(error, folder) or SpoolctlError(
                "DB_INVALID",
                f"cannot make {folder}: {error.strerror}; name another place with --db PATH",
                "spoolctl doctor",
            ) from None


def sync_folder(folder: str) -> None:
    """What is new in a directory is safe only when the directory is. Raises OSError."""
    fd = os.open(raw(folder), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ignore(folder: str) -> None:
    """A new .spoolctl/ keeps itself out of version control."""
    try:
        fd = os.open(raw(os.path.join(folder, ".gitignore")), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)
