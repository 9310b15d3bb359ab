"""Sending a signal to a process, the one place that does: never to pid or group 1 or below, to
ourselves or to our own group, and never to a number that has come to mean another process.

Outside the parent a process is opened with pidfd, then judged again, then signalled through the pidfd,
so that nothing can take its number in between.
"""

import os
import signal

from . import proc

SENT, GONE, DENIED = "sent", "gone", "denied"


def to_process(member: "proc.Stat", number: int) -> str:
    """Signal exactly this process (pid and start time). SENT, GONE or DENIED (not permitted)."""
    pid = member.pid
    if pid <= 1 or pid == os.getpid():
        return DENIED
    try:
        fd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return GONE
    except OSError:
        fd = -1  # a kernel without pidfd
    try:
        now = proc.stat(pid)
        if now is None or now.start != member.start or now.gone:
            return GONE
        if fd >= 0 and hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(fd, number)
        else:
            os.kill(pid, number)
        return SENT
    except ProcessLookupError:
        return GONE
    except PermissionError:
        return DENIED
    finally:
        if fd >= 0:
            os.close(fd)


def to_group(leader: int, number: int) -> str:
    """Signal the group of an unreaped leader of ours, which therefore still owns its number."""
    if leader <= 1 or leader == os.getpgrp():
        return DENIED
    try:
        os.killpg(leader, number)
        return SENT
    except ProcessLookupError:
        return GONE
    except PermissionError:
        return DENIED
