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
_TRANSIENT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Spawner:
    """Starts commands for one worker, whose environment is the base of every job's."""

    def __init__(self, spool: "paths.Spool", environ: "dict[str, str]") -> None:
        self.spool = spool
        self.base = {paths.raw(key): paths.raw(value) for key, value in environ.items()}
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def environment(self, row: "Row") -> "dict[bytes, bytes]":
        """The worker's variables, then the submitter's captured ones, then the job's, then ours."""
        found = dict(self.base)
        for stored in (row["captured_env"], row["env"]):
            for key, value in variables(stored).items():
                found[paths.raw(key)] = paths.raw(value)
        found[names.JOB_ID.encode()] = str(row["id"]).encode()
        found[names.ATTEMPT.encode()] = str(row["attempt_no"]).encode()
        found[names.QUEUE.encode()] = paths.raw(str(row["queue"]))
        found[names.JOB_DB.encode()] = paths.raw(self.spool.db)
        found[names.TOKEN.encode()] = str(row["token"]).encode()
        return found

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
            raise SpawnFailed(text, error.errno in _TRANSIENT) from None
        except (ValueError, subprocess.SubprocessError) as error:
            raise SpawnFailed(f"spawn failed: {error}") from None

    def close(self) -> None:
        os.close(self.null)
