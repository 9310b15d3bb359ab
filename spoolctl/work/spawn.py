"""Starting a command: its argv, directory, environment and descriptors (SPEC 5).

No code of ours runs between fork and exec, so that the fast vfork can be used: a new session is a flag,
and signals the worker was started with ignored have a handler, which exec resets.
"""

import errno
import os
import sys

from .. import paths
from ..contract import env as names
from ..store.jobs import loaded, variables, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row


class SpawnFailed(Exception):
    """The command could not be started; the text is the attempt's error. `transient`: it was not the
    job's fault but the machine's (no process, no memory, no descriptor to be had)."""

    def __init__(self, message: str, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


_NUMBER = (int, float, type(None))
TRANSIENT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


_JOB_ID, _ATTEMPT, _QUEUE, _JOB_DB, _TOKEN = (name.encode() for name in names.RESERVED)


class Spawner:
    """Starts commands for one worker, whose environment is the base of every job's."""

    def __init__(self, spool: "paths.Spool", environ: "dict[str, str]") -> None:
        self.spool = spool
        self.base = {paths.raw(key): paths.raw(value) for key, value in environ.items()}
        self._captured: object = None
        self._merged = self.base
        self._path: "bytes | None" = None
        self._folders: "list[bytes]" = []
        self._db = paths.raw(spool.db)
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def environment(self, row: "Row") -> "dict[bytes, bytes]":
        """The worker's variables, then the submitter's captured ones, then the job's, then ours.

        Raises SpawnFailed when the stored ones cannot be read.
        """
        found = dict(self._inherited(row["captured_env"]))
        if row["env"] is not None:
            found.update(_stored(row["env"]))
        found[_JOB_ID] = b"%d" % row["id"]
        found[_ATTEMPT] = b"%d" % row["attempt_no"]
        found[_QUEUE] = paths.raw(row["queue"])
        found[_JOB_DB] = self._db
        found[_TOKEN] = row["token"].encode()
        return found

    def _inherited(self, captured: object) -> "dict[bytes, bytes]":
        """The worker's variables with a submitter's captured ones; kept, for most jobs have the same."""
        if captured != self._captured:
            self._merged = {**self.base, **(_stored(captured) if captured is not None else {})}
            self._captured = captured
        return self._merged

    def _program(self, name: bytes, path: bytes) -> "bytes | None":
        """Where the job's own PATH has the program now; None leaves the search to exec itself, and with
        it the error."""
        if b"/" in name:
            return None
        if path != self._path:
            self._path, self._folders = path, [folder + b"/" for folder in path.split(b":")]
        for folder in self._folders:
            if folder[:1] != b"/" or folder == b"/":
                return None  # relative to the job's directory: exec looks there, not here
            candidate = folder + name
            if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                return candidate
        return None

    def start(self, row: "Row", stdout: int, stderr: int) -> int:
        """Start the job's command; its pid. Raises SpawnFailed."""
        stored = words(row["argv"])
        if not stored:
            raise SpawnFailed("spawn failed: the stored command cannot be read")
        if not all(isinstance(row[name], _NUMBER) for name in ("timeout", "max_output")):
            raise SpawnFailed("spawn failed: the stored limits cannot be read")
        try:
            argv = [paths.raw(word) for word in stored]
            environment = self.environment(row)
            cwd = paths.raw(loaded(row["cwd"]) or "/")
            program = self._program(argv[0], environment.get(b"PATH", os.defpath.encode()))
            shortcut = _start(program or argv[0], argv, environment, cwd, (self.null, stdout, stderr))
            return shortcut or self._popen(program, argv, environment, cwd, stdout, stderr)
        except ValueError as error:
            raise SpawnFailed(f"spawn failed: {error}") from None
        except OSError as error:
            name = error.filename
            shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or stored[0])
            text = f"spawn failed: [Errno {error.errno}] {error.strerror}: {shown!r}"
            raise SpawnFailed(text, error.errno in TRANSIENT) from None

    def _popen(
        self, program: "bytes | None", argv: "list[bytes]", environment: "dict[bytes, bytes]", cwd: bytes,
        stdout: int, stderr: int,
    ) -> int:  # fmt: skip
        """Raises OSError, SpawnFailed."""
        import subprocess

        try:
            process = subprocess.Popen(
                argv,
                executable=program,
                stdin=self.null,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
        except subprocess.SubprocessError as error:
            raise SpawnFailed(f"spawn failed: {error}") from None
        process.returncode = 0  # whoever started it reaps it, not this object
        return process.pid

    def close(self) -> None:
        os.close(self.null)


# What `subprocess` comes down to. Its preparations are a third of a start, which every job waits for; but its
# arguments are its own affair, so only Pythons that were looked at take the short way: the arguments after
# "start a new session", which are no process group (not in 3.10), no other user, and vfork.
_NOBODY_ELSE = (None, None, None, -1, None)
_LAST_ARGUMENTS = {(3, 10): _NOBODY_ELSE} | dict.fromkeys(
    ((3, 11), (3, 12), (3, 13)), (-1, *_NOBODY_ELSE, True)
)


def _start(
    program: bytes, argv: "list[bytes]", environment: "dict[bytes, bytes]", cwd: bytes,
    fds: "tuple[int, int, int]",
) -> int:  # fmt: skip
    """The pid of a new command, 0 for what `subprocess` has to start, or to explain. Raises OSError."""
    last = _LAST_ARGUMENTS.get(sys.version_info[:2])
    variables = [key + b"=" + value for key, value in environment.items()]
    refused = b"\0" in b"".join(argv + variables) or b"=" in b"".join(environment)
    if last is None or b"/" not in program or refused:
        return 0
    from _posixsubprocess import fork_exec

    told, tell = os.pipe()  # closed by exec, or written into by a child that failed
    try:
        if min(*fds, told, tell) <= 2:
            return 0
        null, stdout, stderr = fds
        pid: int = fork_exec(
            argv, (program,), True, (tell,), cwd, variables, null, -1, -1, stdout, -1, stderr, told,  # type: ignore[arg-type]
            tell, True, True, *last,
        )  # fmt: skip
        os.close(tell)
        tell = -1
        if os.read(told, 1):
            os.waitpid(pid, 0)
            return 0
        return pid
    finally:
        os.close(told)
        if tell >= 0:
            os.close(tell)


def _stored(env: object) -> "dict[bytes, bytes]":
    found = variables(env)
    if found is None:
        raise SpawnFailed("spawn failed: the stored environment cannot be read")
    return {paths.raw(key): paths.raw(value) for key, value in found.items()}
