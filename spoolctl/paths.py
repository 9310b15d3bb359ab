"""Where the database and everything beside it are (SPEC 2.5).

Texts are UTF-8 with surrogates; `raw` turns one into the bytes the system is given, whatever the
locale. Resolving reads the file system and creates nothing.
"""

import os

from .errors import SpoolctlError, invalid

FOLDER = ".spoolctl"
NAME = "queue.db"
LOGS = ("-wal", "-journal", "-shm")  # what SQLite puts beside a database


def raw(text: str) -> bytes:
    """The bytes of a path or argument."""
    return text.encode("utf-8", "surrogateescape")


def text(path: bytes) -> str:
    """The inside form of a path's bytes."""
    return path.decode("utf-8", "surrogateescape")


def operand(path: str) -> str:
    """A path as a command's word: with a dash in front it would be taken for a flag."""
    return f"./{path}" if path.startswith("-") else path


def owned(path: str) -> bool:
    """Whether its mode is ours to change."""
    try:
        return os.geteuid() in (0, os.stat(raw(path)).st_uid)
    except OSError:
        return False


def size_of(path: str) -> int:
    """The bytes of a file by a look now, 0 for what is not there."""
    try:
        return os.stat(raw(path)).st_size
    except OSError:
        return 0


def look(path: str) -> str:
    """The line that shows what stands at `path`, or else what is in the nearest directory above."""
    from .terminal import quoted

    while not os.path.lexists(raw(path)) and path not in ("/", "."):
        path = os.path.dirname(path) or "."
    way = "-la" if os.access(raw(path), os.R_OK) else "-ld"
    return f"ls {way} {quoted(operand(path))}"


def show(path: str) -> str:
    """The line that shows what a file says, or what else stands there."""
    from .terminal import quoted

    if os.path.isfile(raw(path)) and os.access(raw(path), os.R_OK):
        return f"cat {quoted(operand(path))}"
    return look(path)


class Spool:
    """The files of one queue. `db` is absolute and real (no symbolic links)."""

    __slots__ = ("db", "gate", "output", "source", "wake", "workers")

    def __init__(self, db: str, source: str) -> None:
        self.db = db
        self.source = source  # flag | environment | project_config | default
        folder, name = os.path.split(db)
        prefix = os.path.join(folder, "" if name == NAME else name + ".")
        self.output = prefix + "output"
        self.workers = prefix + "workers"
        self.gate = prefix + "gate"
        self.wake = prefix + "wake"

    def stream(self, job_id: int, attempt_no: int, stream: str) -> str:
        """The capture file of one stream of one attempt."""
        return f"{self.output}/{job_id}/{attempt_no}/{stream}"


def project(cwd: str, uid: int) -> "tuple[str, bool]":
    """(directory, stranger): the nearest directory from `cwd` up that holds our `.spoolctl/`, else `cwd`.

    `stranger` says that `cwd` itself holds one that belongs to somebody else.
    """
    here = cwd
    while True:
        try:
            info = os.stat(raw(os.path.join(here, FOLDER)))
            if info.st_uid == uid and (info.st_mode & 0o170000) == 0o040000:
                return here, False
        except OSError:
            pass
        parent = os.path.dirname(here)
        if parent == here:
            break
        here = parent
    try:
        info = os.stat(raw(os.path.join(cwd, FOLDER)))
    except OSError:
        return cwd, False
    return cwd, info.st_uid != uid


def resolve(
    flag: "str | None",
    environment: "str | None",
    config: "str | None",
    config_path: str,
    cwd: str,
    project_dir: str,
    stranger: bool,
) -> Spool:
    """The spool that flag, environment, config or default name, in this order (SPEC 2.5).

    Raises INVALID_INPUT (a directory without queue.db, an empty SPOOLCTL_DB), SAFETY_BLOCK.
    """
    if flag is not None:
        return _spool(flag, cwd, "flag", "--db")
    if environment is not None:
        if not environment or "\0" in environment or len(raw(environment)) > 4096:
            raise invalid(
                "SPOOLCTL_DB is set but is no path: unset it, or give it the path of a database",
                "unset SPOOLCTL_DB",
                flag="SPOOLCTL_DB",
                value=environment[:200],
            )
        return _spool(environment, cwd, "environment", "SPOOLCTL_DB")
    if config is not None:
        return _spool(config, os.path.dirname(config_path), "project_config", "db_path")
    if stranger:
        folder = os.path.join(project_dir, FOLDER)
        message = f"{folder} belongs to another user: name a database of your own with --db PATH"
        raise SpoolctlError("SAFETY_BLOCK", message, look(folder))
    return _spool(os.path.join(project_dir, FOLDER, NAME), cwd, "default", "the default")


def _spool(path: str, base: str, source: str, name: str) -> Spool:
    full = real(os.path.join(base, path))
    if os.path.isdir(raw(full)):
        inner = os.path.join(full, NAME)
        if not os.path.isfile(raw(inner)):
            raise invalid(
                f"{name}: {path!r} is a directory without a {NAME}: name the database file itself, "
                f"for example {os.path.join(path, NAME)!r}",
                look(full),
                flag=name,
                value=path[:200],
            )
        full = real(inner)
    return Spool(full, source)


def real(path: str) -> str:
    """The absolute path without symbolic links; parts that do not exist are kept."""
    return text(os.path.realpath(raw(path)))
