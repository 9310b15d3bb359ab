"""Starting a command: its argv, directory, environment and descriptors (SPEC 5).

No code of ours runs between fork and exec, so that the fast vfork can be used: a new session is a flag,
and signals the worker was started with ignored have a handler, which exec resets.
"""

import errno
import os

from .. import paths
from ..contract import env as names
from ..store.jobs import loaded, variables, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

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

    @staticmethod
    def _program(name: bytes, path: bytes) -> "bytes | None":
        """Where the job's own PATH has the program now; None leaves the search to exec itself, and with
        it the error."""
        if b"/" in name:
            return None
        for folder in path.split(b":"):
            if folder[:1] != b"/":
                return None  # relative to the job's directory: exec looks there, not here
            candidate = folder + b"/" + name
            if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                return candidate
        return None

    def start(self, row: "Row", stdout: int, stderr: int) -> "subprocess.Popen[bytes]":
        """Start the job's command. Raises SpawnFailed."""
        import subprocess

        argv = words(row["argv"])
        if not argv:
            raise SpawnFailed("spawn failed: the stored command cannot be read")
        if not all(isinstance(row[name], _NUMBER) for name in ("timeout", "max_output")):
            raise SpawnFailed("spawn failed: the stored limits cannot be read")
        try:
            environment = self.environment(row)
            return subprocess.Popen(
                [paths.raw(word) for word in argv],
                executable=self._program(paths.raw(argv[0]), environment.get(b"PATH", os.defpath.encode())),
                stdin=self.null,
                stdout=stdout,
                stderr=stderr,
                cwd=paths.raw(loaded(row["cwd"]) or "/"),
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            name = error.filename
            shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or argv[0])
            text = f"spawn failed: [Errno {error.errno}] {error.strerror}: {shown!r}"
            raise SpawnFailed(text, error.errno in TRANSIENT) from None
        except (ValueError, subprocess.SubprocessError) as error:
            raise SpawnFailed(f"spawn failed: {error}") from None

    def close(self) -> None:
        os.close(self.null)


def _stored(env: object) -> "dict[bytes, bytes]":
    found = variables(env)
    if found is None:
        raise SpawnFailed("spawn failed: the stored environment cannot be read")
    return {paths.raw(key): paths.raw(value) for key, value in found.items()}
