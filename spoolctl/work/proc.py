"""What the kernel says of processes: /proc on Linux. Reads only; what cannot be read is None.

A start time is in clock ticks since boot; with the boot id and the pid namespace it names a process
for ever, where a pid alone is used again.
"""

import os

TICKS = os.sysconf("SC_CLK_TCK")


class Stat:
    """One process as /proc/PID/stat shows it."""

    __slots__ = ("pgrp", "pid", "ppid", "session", "start", "state", "threads")

    def __init__(self, pid: int, fields: "list[bytes]") -> None:
        self.pid = pid
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.pgrp = int(fields[2])
        self.session = int(fields[3])
        self.threads = int(fields[17])
        self.start = int(fields[19])

    @property
    def gone(self) -> bool:
        """A zombie with one thread is gone; with more, some still run."""
        return self.state in (b"X", b"x") or (self.state == b"Z" and self.threads <= 1)


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


def stat(pid: int) -> "Stat | None":
    """The process, None when it is gone or hidden."""
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    try:
        return Stat(pid, content[content.rindex(b")") + 2 :].split())
    except (ValueError, IndexError):
        return None


def all_stats() -> "list[Stat]":
    """Every process that can be seen."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    found = (stat(int(name)) for name in names if name.isdigit())
    return [one for one in found if one is not None]


def uid(pid: int) -> "int | None":
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def boot_id() -> "str | None":
    content = _read("/proc/sys/kernel/random/boot_id")
    return content.decode("ascii").strip() if content else None


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


def locks(pid: int, prefix: bytes) -> "bytes | None":
    """The first path under `prefix` on which the process holds an exclusive flock, None for none.

    A descriptor that merely reads such a file (somebody's `tail -f`) is no lock and no member.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}".encode())
        except OSError:
            continue
        if target.startswith(prefix):
            info = _read(f"/proc/{pid}/fdinfo/{name}") or b""
            if any(b"FLOCK" in line and b"WRITE" in line for line in info.split(b"\n")):
                return target
    return None
