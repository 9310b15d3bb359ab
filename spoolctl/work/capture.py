"""The two files an attempt writes to, opened, locked and handed to it as descriptors 1 and 2.

The lock belongs to the open files, so the kernel holds it from before exec until the last process of
the tree has let them go, across the worker's death and without a window.
"""

import errno
import fcntl
import os
import stat

from ..contract.states import STREAMS
from ..paths import Spool, raw

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class Capture:
    """The open files of one attempt: `fds` for the command, and our own descriptors to ask for the lock."""

    __slots__ = ("_looks", "fds")

    def __init__(self, folder: bytes) -> None:
        """Make both files, empty, private and locked. Raises OSError."""
        _make(folder)
        self.fds: "list[int]" = []
        self._looks: "list[int]" = []
        try:
            for stream in STREAMS:
                path = folder + b"/" + stream.encode()
                self.fds.append(_open(path))
                _lock(self.fds[-1])
                self._looks.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except BaseException:
            self.close()
            raise

    def handed_over(self) -> None:
        """The command has its copies, and the lock with them: let ours go."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def held(self) -> bool:
        """Whether some process still holds one of the files."""
        for fd in self._looks:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(fd, fcntl.LOCK_UN)
            except BlockingIOError:
                return True
            except OSError:
                pass  # no flock here: scans decide
        return False

    def close(self) -> None:
        self.handed_over()
        for fd in self._looks:
            os.close(fd)
        self._looks = []


class Captures:
    """Opens capture files. A spare pair can be made while a command runs, so that the next one need not
    wait for the file system: it lies beside the workers' locks until its folder gets a job's name."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.spare = b""
        self._output = raw(spool.output) + b"/"
        self._ready: "Capture | None" = None

    def owned_by(self, instance: int) -> None:
        """Say whose the spare pair is, before the first is made."""
        self.spare = self.spare or raw(spare_path(self.spool, instance))

    def prepare(self) -> None:
        """Make a spare pair, unless there is one. What fails here fails again, and is told, in `open`."""
        if self._ready is None:
            try:
                _make(self.spare)
                self._ready = Capture(self.spare + b"/1")
            except OSError:
                pass

    def open(self, job_id: int, attempt_no: int) -> Capture:
        """The files of a new attempt. Raises OSError.

        Files found under its number are what a power cut left of one that never counted.
        """
        job = self._output + b"%d" % job_id
        if self._ready is not None and attempt_no == 1:
            try:
                os.rename(self.spare, job)
            except OSError:
                pass  # no folder to put it in yet, or one of that name: made step by step below
            else:
                ready, self._ready = self._ready, None
                return ready
        try:
            _make(job)
        except FileNotFoundError:
            _make(raw(self.spool.output))
            _make(job)
        return Capture(job + b"/%d" % attempt_no)

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()
            self._ready = None
        if self.spare:
            discard(self.spare)


def spare_path(spool: Spool, instance: int) -> str:
    return f"{spool.workers}/{instance}.spare"


def discard(spare: bytes) -> None:
    """Remove a spare pair that a worker left."""
    for name in (b"/1/stdout", b"/1/stderr"):
        try:
            os.unlink(spare + name)
        except OSError:
            pass
    for name in (b"/1", b""):
        try:
            os.rmdir(spare + name)
        except OSError:
            pass


def _make(folder: bytes) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass  # a file in its place is found when something is made inside it


def _open(path: bytes) -> int:
    """A new file, or one that was there, emptied. Jobs can put anything there: a pipe would block us."""
    try:
        return os.open(path, _FLAGS | os.O_EXCL, 0o600)
    except FileExistsError:
        fd = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), path)
    os.set_blocking(fd, True)
    return fd


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass  # a file system without flock: the tree is proven by scans alone


def sizes(spool: Spool, job_id: int, attempt_no: int) -> int:
    """Bytes in both files."""
    total = 0
    for stream in STREAMS:
        try:
            total += os.stat(raw(spool.stream(job_id, attempt_no, stream))).st_size
        except OSError:
            pass
    return total
