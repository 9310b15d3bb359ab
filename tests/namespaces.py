"""A pid namespace of its own for a test: the tool and strangers inside it, numbers given out on purpose."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import Answer, checked, clean_env, command, wait_until

# Pid 1 of the namespace: whoever is left to it is reaped at once, so that its number is free again.
INIT = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
signal.pause()
"""

# Somebody who has nothing to do with any job, under a number that is given; says its own, then lives on.
# `session` and `group`: only a session or a group has the number, whoever began it has ended.
TAKE = """
import os, signal, sys, time
number, how = int(sys.argv[1]), sys.argv[2]
reader, writer = os.pipe()
def live():
    os.write(writer, b"%d" % os.getpid())
    time.sleep(600)
    os._exit(0)
def begin():
    if how in ("leader", "session"):
        os.setsid()
    elif how == "group":
        os.setpgid(0, 0)
    if how in ("session", "group") and os.fork():
        os._exit(0)
    live()
for _ in range(2000):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(number - 1))
    child = os.fork()
    if child == 0:
        begin() if os.getpid() == number else os._exit(0)
    if child == number:
        if how in ("session", "group"):
            os.waitpid(child, 0)
        print(os.read(reader, 20).decode(), flush=True)
        signal.pause()
    os.waitpid(child, 0)
print("not to be had", flush=True)
"""


class Namespace:
    """Processes started here see each other under numbers of their own; files are those of the test."""

    def __init__(self, spool, *flags: str) -> None:
        self.spool = spool
        self._inside: list[subprocess.Popen[bytes]] = []
        for tool in ("unshare", "nsenter"):
            if shutil.which(tool) is None:
                pytest.skip(f"there is no {tool} command")
        own = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *flags]
        line = [*own, sys.executable, "-c", INIT]
        self._outer = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        if self._outer.stdout.readline() != b"up\n":
            _, said = self._outer.communicate()
            pytest.skip(f"cannot make a pid namespace: {said.decode(errors='replace').strip()}")
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text()
        self.init = int(children.split()[0])

    def line(self, *words: str) -> list[str]:
        return [
            "nsenter", f"--target={self.init}", "--pid", "--mount",
            "sh", "-c", 'cd "$0" && exec "$@"', str(self.spool.path), *words,
        ]  # fmt: skip

    def start(self, *tokens: str, **popen) -> subprocess.Popen[bytes]:
        """The tool inside; the process is only its keeper outside: signal it with `kill`."""
        return self.begin(*command(*tokens), **popen)

    def begin(self, *words: str, **popen) -> subprocess.Popen[bytes]:
        options = {
            "env": clean_env(), "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL, "start_new_session": True,
        }  # fmt: skip
        process = subprocess.Popen(self.line(*words), **options | popen)
        self._inside.append(process)
        return process

    def cli(self, *tokens: str, check: int | None = None) -> Answer:
        done = subprocess.run(
            self.line(*command(*tokens)), env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60,
        )  # fmt: skip
        return checked(Answer(list(tokens), done.returncode, done.stdout, done.stderr), {}, check)

    def stat(self, pid: int) -> list[str] | None:
        """The fields of a process inside, from its state on; None when there is none."""
        try:
            content = Path(f"/proc/{self.init}/root/proc/{pid}/stat").read_text()
        except OSError:
            return None
        return content.rpartition(")")[2].split()

    def alive(self, pid: int) -> bool:
        return (fields := self.stat(pid)) is not None and fields[0] not in "ZX"

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        subprocess.run(self.line("kill", f"-{int(number)}", str(pid)), check=True)

    def end(self, pid: int) -> None:
        """Kill it, and wait until its number is free."""
        self.kill(pid)
        wait_until(lambda: self.stat(pid) is None, 20, f"the number {pid} to be free")

    def take(self, pid: int, how: str = "plain") -> int:
        """Give the number to somebody who belongs to no job; who lives on under it, or in its session."""
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            pytest.skip("ns_last_pid cannot be written")
        stranger = self.begin(sys.executable, "-c", TAKE, str(pid), how, stdout=subprocess.PIPE)
        said = stranger.stdout.readline().strip()
        assert said.isdigit(), said
        return int(said)

    def close(self) -> None:
        self._outer.kill()  # and with it pid 1, and with that everybody inside
        self._outer.communicate()
        for process in self._inside:
            process.send_signal(signal.SIGCONT)  # a keeper stops with what it keeps
            process.communicate(timeout=20)
