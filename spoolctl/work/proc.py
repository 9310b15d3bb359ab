"""What the kernel says of processes: one small face, with a module behind it for each system.

Reads only; what cannot be read is None, and None proves nothing. `TICKS` a second is the unit of start
times, and `moment()` is the present one in seconds of that clock. `TOKENS`: whether the environment of
other processes can be read.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import linux as system
elif sys.platform == "darwin":
    from . import darwin as system
else:
    from . import linux as system

TICKS = system.TICKS
TOKENS = system.TOKENS
ChildList = system.ChildList
boot_id = system.boot_id
locks = system.locks
moment = system.moment
pid_namespace = system.pid_namespace
session_number = system.session_number
uid = system.uid


class Stat:
    """One process. With the boot id and the pid namespace its start time names it for ever, where a pid
    alone is used again. `state` is one letter, b"Z" for a zombie."""

    __slots__ = ("pgrp", "pid", "ppid", "session", "start", "state", "threads")

    def __init__(
        self, pid: int, state: bytes, ppid: int, pgrp: int, session: int, threads: int, start: int
    ) -> None:
        self.pid = pid
        self.state = state
        self.ppid = ppid
        self.pgrp = pgrp
        self.session = session
        self.threads = threads
        self.start = start

    @property
    def gone(self) -> bool:
        """A zombie with one thread is gone; with more, some still run."""
        return self.state in (b"X", b"x") or (self.state == b"Z" and self.threads <= 1)


def stat(pid: int) -> "Stat | None":
    """The process, None when it is gone or hidden."""
    fields = system.stat(pid)
    return Stat(*fields) if fields else None


def all_stats() -> "list[Stat]":
    """Every process that can be seen."""
    found = (stat(pid) for pid in system.pids())
    return [one for one in found if one is not None]
