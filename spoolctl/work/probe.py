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
import os, sys
mark, others, pids = sys.argv[1].encode(), sys.argv[2], sys.argv[3:]

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except ProcessLookupError:
        return b""  # its main thread has no memory any more
    except OSError:
        return None

def carried(folder):
    # None: it is gone, or not for us to know. Empty: there was nothing to read.
    content = read(folder + "/environ")
    words = content.split(b"\\0") if content else ()
    for word in words:
        if word.startswith(mark):
            return word[len(mark):].decode("ascii", "replace")
    return "-" if words else None if content is None else ""

def ask(pid):
    folder = "/proc/" + pid
    found = carried(folder)
    if found != "":
        return found
    # In the middle of exec, or the main thread has ended and others go on: only a command line that is
    # there, or a thread of the kernel, says that there is none.
    try:
        tasks = os.listdir(folder + "/task")
    except OSError:
        return None
    for task in tasks:
        found = carried(folder + "/task/" + task)
        if found:
            return found
    if read(folder + "/cmdline"):
        found = carried(folder)
        return "-" if found == "" else found
    return "-" if len(tasks) == 1 and not os.path.exists(folder + "/exe") else None

for pid in pids:
    found = ask(pid)
    if found:
        print(pid, found, flush=True)
if others:
    # Those that came while we started: who carries a mark may have left before anybody asks for it.
    me, asked = os.geteuid(), set(pids)
    for pid in sorted((p for p in os.listdir("/proc") if p.isdigit()), key=int, reverse=True):
        try:
            if pid in asked:
                continue
            if os.stat("/proc/" + pid).st_uid != me:
                continue
        except OSError:
            continue
        fields = (read("/proc/" + pid + "/stat") or b"").rpartition(b")")[2].split()
        if len(fields) > 19 and fields[0] not in (b"D", b"Z", b"X"):
            found = carried("/proc/" + pid)
            if found and found != "-":
                print(pid, found, int(fields[19]), flush=True)
"""


class Probe:
    """One question about some pids; `poll` gives {pid: token or '-'} when it is over.

    others: after that, look at everybody else of our user too, and keep in `met` who carries a token.
    """

    helpers: "set[int]" = set()  # children of ours that were adopted from nobody
    _hung: "list[subprocess.Popen[bytes]]" = []

    def __init__(self, pids: "list[int]", others: bool = False) -> None:
        import subprocess

        Probe.clear()
        self.met: "set[tuple[int, int, str]]" = set()  # (pid, start, token) of others it came across
        self.deadline = clock.monotonic() + LIMIT
        self.cut = False  # whether its time was up before it had told all
        self._text = b""
        self._process: "subprocess.Popen[bytes] | None" = None
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _PROGRAM,
                    TOKEN + "=",
                    "all" if others else "",
                    *map(str, pids),
                ],
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
                self.cut = True
                chunk = b""
            if not chunk:
                break
            self._text += chunk
        self.close()
        answers = {}
        for line in self._text.decode("ascii", "replace").splitlines():
            words = line.split(" ")
            if len(words) == 2 and words[1]:
                answers[int(words[0])] = words[1]
            elif len(words) == 3 and words[2]:
                self.met.add((int(words[0]), int(words[2]), words[1]))
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
