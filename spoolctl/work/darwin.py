"""What macOS says of processes, through libproc. Start times are microseconds since the epoch, as they
were when the process was made: a clock step does not move them.
"""

import os

from .. import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = tuple[int, bytes, int, int, int, int, int]  # of `proc.Stat`

TICKS = 1_000_000
TOKENS = False  # the environment of other processes is closed: sessions and the capture lock must do

moment = clock.now

PROC_ALL_PIDS = 1
PROC_PIDTBSDINFO = 3
ZOMBIES_TOO = 1  # as the argument of the above
SZOMB = 5

# struct proc_bsdinfo of <sys/proc_info.h>: flags, status, xstatus, pid, ppid, six user and group ids, one
# reserved; two names; nfiles, pgid, pjobc, tty, its group; nice; start in seconds and microseconds.
BSDINFO = "=12I16s32s5Ii2Q"
SIZE = 136


def parse(content: bytes) -> "tuple[Fields, int] | None":
    """(the fields of a process, its uid) from a `proc_bsdinfo`, which does not tell the session."""
    import struct

    if len(content) < SIZE:
        return None
    found = struct.unpack_from(BSDINFO, content)
    status, pid, ppid, uid, pgid = found[1], found[3], found[4], found[5], found[15]
    state = b"Z" if status == SZOMB else b"R"
    return (pid, state, ppid, pgid, 0, 1, found[20] * TICKS + found[21]), uid


def _info(pid: int) -> "tuple[Fields, int] | None":
    import ctypes

    buffer = ctypes.create_string_buffer(SIZE)
    got = _libproc().proc_pidinfo(pid, PROC_PIDTBSDINFO, ctypes.c_uint64(ZOMBIES_TOO), buffer, SIZE)
    return parse(buffer.raw) if got == SIZE else None


def _libproc() -> "Any":
    import ctypes

    return ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True)


def stat(pid: int) -> "Fields | None":
    found = _info(pid)
    if found is None:
        return None
    try:
        session = os.getsid(pid)
    except OSError:
        session = 0  # a zombie has none any more
    return (*found[0][:4], session, *found[0][5:])


def pids() -> "list[int]":
    import ctypes

    proc = _libproc()
    most = proc.proc_listpids(PROC_ALL_PIDS, 0, None, 0) // 4 + 64
    numbers = (ctypes.c_int * most)()
    got = proc.proc_listpids(PROC_ALL_PIDS, 0, numbers, ctypes.sizeof(numbers)) // 4
    return [pid for pid in numbers[:got] if pid > 0]


def uid(pid: int) -> "int | None":
    found = _info(pid)
    return found[1] if found else None


def session_number(pid: int) -> "int | None":
    """The system counts no sessions."""
    return None


def boot_id() -> "str | None":
    import ctypes

    buffer = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0) != 0:
        return None
    return buffer.value.decode("ascii") or None


def pid_namespace() -> "str | None":
    """There is but one."""
    return "host"


class ChildList:
    """The system keeps no list of children that could be read from one place."""

    @classmethod
    def open(cls) -> "ChildList | None":
        return None

    def read(self) -> "list[int]":
        return []

    def close(self) -> None:
        pass


def locks(pid: int, prefix: bytes) -> "list[bytes]":
    """Who holds a lock cannot be asked; that somebody does, the capture file itself tells."""
    return []
