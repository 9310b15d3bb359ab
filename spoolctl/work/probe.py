"""Asking which processes carry an attempt's token in their environment.

Reading /proc/PID/environ can block for ever, so a helper does it, started with exec (it inherits
neither the worker's lock nor a capture file) and ended after two seconds. No answer proves nothing.
"""

import os
import sys

from .. import clock
from ..contract.env import TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

LIMIT = 2.0

_PROGRAM = """
import sys
mark = sys.argv[1].encode()
for pid in sys.argv[2:]:
    try:
        with open("/proc/" + pid + "/environ", "rb") as file:
            words = file.read().split(b"\\0")
    except OSError:
        words = []
    token = next((w[len(mark):] for w in words if w.startswith(mark)), b"-")
    sys.stdout.write(pid + " " + (token.decode("ascii", "replace") or "-") + "\\n")
    sys.stdout.flush()
"""


class Probe:
    """One question about some pids; `poll` gives {pid: token or '-'} when it is over."""

    helpers: "set[int]" = set()  # children of ours that were adopted from nobody
    _hung: "list[subprocess.Popen[bytes]]" = []

    def __init__(self, pids: "list[int]") -> None:
        import subprocess

        Probe.clear()
        self.asked = pids
        self.deadline = clock.monotonic() + LIMIT
        self._text = b""
        self._process: "subprocess.Popen[bytes] | None" = None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, TOKEN + "=", *map(str, pids)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
            )
        except OSError:
            return  # no process to be had, or our interpreter is gone: no answer
        Probe.helpers.add(self._process.pid)
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)

    def poll(self) -> "dict[int, str] | None":
        """None while it runs; what was answered when it ended or its time was up."""
        while self._process is not None:
            try:
                chunk = os.read(self._fd, 65_536)
            except BlockingIOError:
                if clock.monotonic() < self.deadline:
                    return None
                chunk = b""
            if not chunk:
                break
            self._text += chunk
        self.close()
        answers = {}
        for line in self._text.decode("ascii", "replace").splitlines():
            pid, _, token = line.partition(" ")
            if token:
                answers[int(pid)] = token
        return answers

    @classmethod
    def clear(cls) -> None:
        """Reap the helpers that hung in the kernel, if they have come back: their numbers go with them."""
        for process in [one for one in cls._hung if one.poll() is not None]:
            cls.helpers.discard(process.pid)
            cls._hung.remove(process)

    def close(self) -> None:
        """End the helper; one that hangs in the kernel is reaped with a later one."""
        import subprocess

        if self._process is None:
            return
        self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        try:
            self._process.wait(0.05)
            Probe.helpers.discard(self._process.pid)
        except subprocess.TimeoutExpired:
            Probe._hung.append(self._process)
