"""Being told at once when a process ends that is no child of ours: a pidfd on Linux, kqueue on macOS.

Only a help: whoever waits looks once a second all the same.
"""

import os
import select


class PidFds:
    """`fd` is readable when one of the watched has ended."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._open: "dict[int, int]" = {}  # pid -> pidfd
        self._told: "set[int]" = set()
        self.fd = self._poll.fileno()

    def watch(self, pids: "set[int]") -> None:
        """Watch these and no others. One whose end was told is not watched again."""
        for pid in self._open.keys() - pids:
            self._drop(pid)
        self._told &= pids
        for pid in pids - self._open.keys() - self._told:
            try:
                self._open[pid] = os.pidfd_open(pid)
            except (AttributeError, OSError):
                continue  # gone already, or a system without: the look once a second finds it
            self._poll.register(self._open[pid], select.EPOLLIN)

    def heard(self) -> bool:
        """Whether one of them has ended since the last call."""
        ended = {fd for fd, _ in self._poll.poll(0)}
        for pid in [pid for pid, fd in self._open.items() if fd in ended]:
            self._drop(pid)
            self._told.add(pid)
        return bool(ended)

    def _drop(self, pid: int) -> None:
        fd = self._open.pop(pid)
        self._poll.unregister(fd)
        os.close(fd)

    def close(self) -> None:
        self.watch(set())
        self._poll.close()


class Events:
    """The same by kqueue."""

    def __init__(self) -> None:
        self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        self._watched: "set[int]" = set()
        self.fd = self._queue.fileno()

    def watch(self, pids: "set[int]") -> None:
        """Watch these and no others. One whose end was told is not watched again."""
        self._change(self._watched - pids, select.KQ_EV_DELETE)  # type: ignore[attr-defined,unused-ignore]
        add = select.KQ_EV_ADD | select.KQ_EV_ONESHOT  # type: ignore[attr-defined,unused-ignore]
        self._change(pids - self._watched, add)
        self._watched = set(pids)

    def _change(self, pids: "set[int]", flags: int) -> None:
        for pid in pids:
            event = select.kevent(  # type: ignore[attr-defined,unused-ignore]
                pid,
                filter=select.KQ_FILTER_PROC,  # type: ignore[attr-defined,unused-ignore]
                flags=flags,
                fflags=select.KQ_NOTE_EXIT,  # type: ignore[attr-defined,unused-ignore]
            )
            try:
                self._queue.control([event], 0, 0)
            except OSError:
                pass  # gone already: the look once a second finds it

    def heard(self) -> bool:
        """Whether one of them has ended since the last call."""
        return bool(self._queue.control(None, 64, 0))

    def close(self) -> None:
        self._queue.close()


def open_deaths() -> "PidFds | Events | None":
    """What this system has for it, None where it has nothing."""
    if hasattr(os, "pidfd_open") and hasattr(select, "epoll"):
        return PidFds()
    return Events() if hasattr(select, "kqueue") else None
