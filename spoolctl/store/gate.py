"""The writers' queue: a `flock` on a file beside the database, taken before BEGIN IMMEDIATE.

The kernel's queue costs no polling, and nobody in it waits long; SQLite's own busy handler lets late comers
overtake (measured: 110 against 67 adds/s, p99 310 against 1588 ms with 16 writers). It is no strict order:
who leaves and comes again at once may overtake those that are woken late by a busy machine.

Who must not block (a worker's loop) has no place in that queue, and where it never empties would get
nothing: when its tries have failed for long it makes a wish, the gate's mtime, and who comes new and can
wait lets the queue run empty first. A wish is forgotten after a moment, so that none holds up anybody for
ever; and it is made late, since standing back costs those who do it more than it gives.
"""

import fcntl
import os

from .. import clock
from ..contract.limits import LOCK_PATIENCE
from ..errors import SpoolctlError
from ..paths import Spool, raw

STARVED = 0.5  # seconds of failed tries until a wish is made
WISH = 0.2  # seconds for which it is heeded; who still gets nothing makes it anew before
COURTESY = 1.0  # seconds that one call stands back for all of them
PAUSE = 0.003
TRIES = 0.05  # seconds of tries between two wishes
FIRST_PAUSE, LAST_PAUSE = 0.0001, 0.002  # seconds between two tries: few hold the gate for longer than one


class Gate:
    """The right to write. `blocking` waits in the kernel's queue (a call's main thread); otherwise it
    is tried again and again (a worker's loop, threads). LOCKED comes after `patience` seconds."""

    def __init__(self, spool: Spool, patience: float = LOCK_PATIENCE, blocking: bool = True) -> None:
        self.spool = spool
        self.patience = patience
        self.blocking = blocking
        self._fd = -1
        self._failing: "float | None" = None  # tries have failed since
        self._wished = False

    def enter(self) -> None:
        """Raises LOCKED, DB_INVALID (a directory in its place)."""
        if self._fd < 0:
            try:
                self._fd = os.open(raw(self.spool.gate), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except IsADirectoryError:
                from .file import not_plain

                raise not_plain(self.spool.gate) from None
        if self.blocking:
            until = clock.monotonic() + self.patience
            _give_way(self._fd)
            entered = _flock_blocking(self._fd, max(0.001, until - clock.monotonic()))
        else:
            entered = self._try()
        if not entered:
            raise locked(self.spool.db)

    def _try(self) -> bool:
        """Try for `patience` seconds; who has failed for long, in this call and before it, makes a wish."""
        began = clock.monotonic()
        while not _flock_trying(self._fd, min(TRIES, began + self.patience - clock.monotonic())):
            now = clock.monotonic()
            if self._failing is None:
                self._failing = began
            if now - self._failing >= STARVED:
                self._wish(clock.now())
            if now >= began + self.patience:
                return False
        self._failing = None
        if self._wished:
            self._wish(0)
        return True

    def _wish(self, at: float) -> None:
        """Made with an access time that nothing else has: a file that was just created is no wish."""
        try:
            os.utime(self._fd, (0, at))
            self._wished = at > 0
        except OSError:
            pass  # somebody else's file

    def leave(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def locked(path: str) -> SpoolctlError:
    message = f"{path}: the write lock was not free in time; another process is writing, try again"
    return SpoolctlError("LOCKED", message, "spoolctl status")


def _give_way(fd: int) -> None:
    """Stand back while somebody who may not queue wishes to write."""
    until = clock.monotonic() + COURTESY
    while True:
        info = os.fstat(fd)
        if info.st_atime or abs(clock.now() - info.st_mtime) >= WISH or clock.monotonic() >= until:
            return
        clock.sleep(PAUSE)


class _Expired(Exception):
    pass


def _flock_trying(fd: int, patience: float) -> bool:
    deadline = clock.monotonic() + patience
    pause = FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock.monotonic() >= deadline:
                return False
            clock.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
            pause = min(2 * pause, LAST_PAUSE)


def _flock_blocking(fd: int, patience: float) -> bool:
    """Wait in the kernel's queue, bounded by an interval timer; only the main thread may do this."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        pass
    import signal

    def expire(signum: int, frame: object) -> None:
        raise _Expired

    try:
        before = signal.signal(signal.SIGALRM, expire)
    except ValueError:  # not the main thread
        return _flock_trying(fd, patience)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    try:
        try:
            # Repeated: the first tick could fall between two instructions outside the wait.
            signal.setitimer(signal.ITIMER_REAL, patience, 0.1)
            fcntl.flock(fd, fcntl.LOCK_EX)
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    except _Expired:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        fcntl.flock(fd, fcntl.LOCK_UN)  # in case it came just as time ran out
        return False
