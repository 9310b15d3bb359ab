"""Being told that somebody committed, instead of asking again and again (SPEC 7, Being told).

A writer touches the wake file beside the database after its commit (`store/db.py`), and whoever waits
watches that file. No touch falls into a gap: the watch begins before the look that finds nothing (`begin`),
and what came is taken before the look that follows it (`heard`, `rest`). A touch may be missing all the
same, so nobody sleeps longer than a poll interval, and where nothing can be watched that is all there is.
"""

import os
import sys

from . import clock
from .contract.limits import WOKEN_EVERY
from .paths import Spool, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Identity = tuple[int, int]

IN_ATTRIB = 0x4
IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT, IN_IGNORED = 0x400, 0x800, 0x2000, 0x8000
IN_DONT_FOLLOW = 0x2000000
_GONE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED
_HEAD = 16  # bytes of an event before its name

CHECK_EVERY = 1.0  # seconds at least between two tries to watch, and looks for the file while nothing comes


def make(spool: Spool) -> None:
    """Make the wake file where it is missing, private from the first moment; only in a queue of our own, for
    one of ours in another user's would shut that user out. Raises OSError."""
    if os.stat(raw(spool.db)).st_uid == os.geteuid():
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        os.close(os.open(raw(spool.wake), flags, 0o600))


class Inotify:
    """One file, by inotify. Raises OSError, also where a limit of instances or watches is reached."""

    def __init__(self, path: bytes) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # IN_NONBLOCK, IN_CLOEXEC
        mask = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW
        if self.fd < 0 or libc.inotify_add_watch(self.fd, path, mask) < 0:
            number = ctypes.get_errno()
            if self.fd >= 0:
                os.close(self.fd)
            raise OSError(number, os.strerror(number))

    def heard(self) -> "tuple[bool, bool]":
        """Take what came: (whether something did, whether the file has left its place)."""
        try:
            came = os.read(self.fd, 4096)
        except BlockingIOError:
            return False, False
        at, seen = 0, 0
        while at < len(came):
            seen |= int.from_bytes(came[at + 4 : at + 8], sys.byteorder)
            at += _HEAD + int.from_bytes(came[at + 12 : at + _HEAD], sys.byteorder)
        return True, bool(seen & _GONE)

    def close(self) -> None:
        os.close(self.fd)


class Kqueue:
    """The same by kqueue, which watches an open file."""

    def __init__(self, path: bytes) -> None:
        import select

        self._gone = (
            select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME | select.KQ_NOTE_REVOKE  # type: ignore[attr-defined,unused-ignore]
        )
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_EVTONLY", 0)
        self._file = os.open(path, flags)
        try:
            self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
            event = select.kevent(  # type: ignore[attr-defined,unused-ignore]
                self._file,
                filter=select.KQ_FILTER_VNODE,  # type: ignore[attr-defined,unused-ignore]
                flags=select.KQ_EV_ADD | select.KQ_EV_CLEAR,  # type: ignore[attr-defined,unused-ignore]
                fflags=select.KQ_NOTE_ATTRIB | self._gone,  # type: ignore[attr-defined,unused-ignore]
            )
            self._queue.control([event], 0, 0)
        except OSError:
            os.close(self._file)
            raise
        self.fd = self._queue.fileno()

    def heard(self) -> "tuple[bool, bool]":
        """Take what came: (whether something did, whether the file has left its place)."""
        came = self._queue.control(None, 8, 0)
        return bool(came), any(one.fflags & self._gone for one in came)

    def close(self) -> None:
        self._queue.close()
        os.close(self._file)


def mechanism() -> "Callable[[bytes], Inotify | Kqueue]":
    """What to watch a file with; a system that has neither says so when it is called."""
    import select

    return Kqueue if hasattr(select, "kqueue") else Inotify


class Watch:
    """The wake file of one queue. `fd` is readable after a touch, and -1 while nothing is watched.

    The order is: `begin() or rest()`, then a look. A worker, whose poll has more to wait for, uses `fd`,
    `pause` and `heard` in the place of `rest`, and says `looked` itself.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.fd = -1
        self._source: "Inotify | Kqueue | None" = None
        self._file: "Identity | None" = None
        self._check_at = self._next = 0.0

    def begin(self) -> bool:
        """Watch from now on, where that can be. True when it has just begun: then look once more, for what
        was committed before is not told."""
        now = clock.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + CHECK_EVERY
        file = self._in_place()
        if self._file is not None and file == self._file:
            return False
        self.close()
        try:
            if file is None:
                make(self.spool)
            self._source = mechanism()(raw(self.spool.wake))
        except (OSError, AttributeError, ImportError):
            return False  # no permission, a limit that is reached, a system without
        self._file = self._in_place()
        self.fd = self._source.fd
        return True

    def _in_place(self) -> "Identity | None":
        try:
            info = os.lstat(raw(self.spool.wake))
        except OSError:
            return None
        return info.st_dev, info.st_ino

    def heard(self) -> bool:
        """Take what came, and say whether something did; the look that follows sees what it told of."""
        if self._source is None:
            return False
        came, gone = self._source.heard()
        if gone:
            self.close()
        if came:
            self._check_at = 0.0  # a file that is still open elsewhere tells of its end like of a touch
        return came

    def looked(self) -> None:
        """A look begins. The next touch is acted on WOKEN_EVERY later at the earliest: many watchers that
        look after each of many commits would leave the writer no time for them."""
        self._next = clock.monotonic() + WOKEN_EVERY

    def pause(self) -> float:
        """Seconds until a touch may be acted on; 0 when nothing is watched."""
        return 0.0 if self.fd < 0 else max(0.0, self._next - clock.monotonic())

    def rest(self, seconds: float, out: int = -1) -> bool:
        """Sleep until a touch, at most so long. False when nobody reads the pipe `out` any more.

        Loads and opens nothing, so that a signal may break it off."""
        import select

        poller = select.poll()
        if out >= 0:
            poller.register(out, 0)  # a poll for nothing still tells of the error of a pipe without a reader
        pause = min(self.pause(), seconds)
        if pause > 0 and poller.poll(pause * 1000 + 1):
            return False
        if self.fd >= 0:
            poller.register(self.fd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(max(0.0, seconds - pause) * 1000 + 1)]
        if out in ready:
            return False
        self.heard()
        self.looked()
        return True

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source, self._file, self.fd = None, None, -1
