"""What Linux says of processes, in /proc. Start times are clock ticks since boot."""

import os

from .. import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    Fields = tuple[int, bytes, int, int, int, int, int]  # of `proc.Stat`

TICKS = os.sysconf("SC_CLK_TCK")
TOKENS = True  # the environment of other processes can be read

moment = clock.boottime


def parse(content: bytes) -> "Fields | None":
    """The fields of a /proc/PID/stat; the name in it may hold blanks and brackets."""
    try:
        pid = int(content[: content.index(b" ")])
        fields = content[content.rindex(b")") + 2 :].split()
        state, ppid, pgrp, session = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
        return pid, state, ppid, pgrp, session, int(fields[17]), int(fields[19])
    except (ValueError, IndexError):
        return None


def _read(path: str) -> "bytes | None":
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> "Fields | None":
    content = _read(f"/proc/{pid}/stat")
    return parse(content) if content else None


def pids() -> "list[int]":
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def uid(pid: int) -> "int | None":
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def session_number(pid: int) -> "int | None":
    """The kernel's own number of the process's session, never given twice in a boot (that of its
    autogroup, a new one with each setsid); None where there is none."""
    content = _read(f"/proc/{pid}/autogroup") or b""
    number = content.partition(b"-")[2].partition(b" ")[0]
    return int(number) if number.isdigit() else None


_boot: "list[str]" = []  # it does not change, and is asked for with every owner


def boot_id() -> "str | None":
    if not _boot:
        content = _read("/proc/sys/kernel/random/boot_id")
        _boot.extend([content.decode("ascii").strip()] if content else [])
    return _boot[0] if _boot else None


def pid_namespace() -> "str | None":
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


class ChildList:
    """This process's direct children as the kernel lists them, zombies too, read from one descriptor.

    Sound because only this single-threaded parent takes entries off the list, by reaping.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open(cls) -> "ChildList | None":
        """None where the kernel keeps no such list."""
        pid = os.getpid()
        try:
            return cls(os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return None

    def read(self) -> "list[int]":
        content = b""
        while chunk := os.pread(self._fd, 65_536, len(content)):
            content += chunk
        return [int(word) for word in content.split()]

    def close(self) -> None:
        os.close(self._fd)


def locks(pid: int, prefix: bytes) -> "list[bytes]":
    """The paths under `prefix` on which the process holds an exclusive flock.

    A descriptor that merely reads such a file (somebody's `tail -f`) is no lock and no member.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    found: "list[bytes]" = []
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}".encode())
        except OSError:
            continue
        if target.startswith(prefix):
            info = _read(f"/proc/{pid}/fdinfo/{name}") or b""
            if any(b"FLOCK" in line and b"WRITE" in line for line in info.split(b"\n")):
                found.append(target)
    return found
