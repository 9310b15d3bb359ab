"""The two files an attempt writes to, opened, locked and handed to it as descriptors 1 and 2.

The lock belongs to the open files, so the kernel holds it from before exec until the last process of
the tree has let them go, across the worker's death and without a window.
"""

import fcntl
import os

from ..contract.states import STREAMS
from ..paths import Spool, raw

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def open_streams(spool: Spool, job_id: int, attempt_no: int) -> "tuple[int, int]":
    """Descriptors for stdout and stderr, empty, private and locked. Raises OSError.

    Files found under a new attempt's number are what a power cut left of one that never counted.
    """
    job = raw(f"{spool.output}/{job_id}")
    folder = b"%s/%d" % (job, attempt_no)
    try:
        _make(job)
    except FileNotFoundError:
        _make(raw(spool.output))
        _make(job)
    _make(folder)
    fds = []
    try:
        for stream in STREAMS:
            fds.append(os.open(folder + b"/" + stream.encode(), _FLAGS, 0o600))
            _lock(fds[-1])
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return fds[0], fds[1]


def _make(folder: bytes) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass  # a file in its place is found when something is made inside it


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
