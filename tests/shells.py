"""Real shells that complete a line: bash, zsh and fish, each asked for many lines in one process."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support import PATIENCE, ROOT, clean_env, signal_quietly, wait_until

SHELLS = ("bash", "zsh", "fish")

# What answers in the place of spoolctl where only the script is looked at: fast, and it keeps its calls.
STAND_IN = """\
#!/bin/sh
echo "$*" >>calls
case $3 in
jobs) printf '12\\tqueued make all\\n7\\tdone true\\n' ;;
lanes) printf 'builds\\ndefault\\n' ;;
keys) printf 'nightly\\nother\\n' ;;
tags) printf 'run=42\\nhost=a\\n' ;;
esac
"""

BASH = r"""
. ./script
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line}
    read -r -a COMP_WORDS <<<"$line"
    case $line in *' ') COMP_WORDS[${#COMP_WORDS[@]}]= ;; esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    echo "==$line"
    _spoolctl
    [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
done <lines >out
"""

FISH = r"""
source ./script
while read -l line
    echo "==$line"
    complete -C $line
end <lines >out
"""

# compadd is what every match of zsh goes through; a widget completes line after line.
ZSH = r"""
autoload -Uz compinit; compinit -D -u
source ./script
compadd() {
    if [[ ${@[1,(i)(-|--)]} != *-[OAD]\ * ]]; then
        local -a hits
        builtin compadd -A hits "$@"
        (( $#hits )) && print -rl -- "${(@)hits}" >>out
    fi
    builtin compadd "$@"
}
zle -C capture list-choices _main_complete
drive() {
    local line
    while IFS= read -r line; do
        print -r -- "==$line" >>out
        BUFFER=$line CURSOR=$#line
        zle capture
    done <lines
    BUFFER=''
    : >ready
}
zle -N drive
bindkey '^Xd' drive
"""


def shell_env(folder: Path) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**clean_env(), "PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8",
            "INPUTRC": "/dev/null", "PS1": "> "}  # fmt: skip


def install(folder: Path, text: str | None = None) -> None:
    """Put a command `spoolctl` first in PATH: `text`, or the real one, which also keeps its calls."""
    if text is None:
        python = f"PYTHONPATH='{ROOT}' exec '{sys.executable}' -m spoolctl"
        text = f'#!/bin/sh\necho "$*" >>calls\n{python} "$@"\n'
    path = folder / "bin" / "spoolctl"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Terminal:
    """An interactive shell on a pseudo terminal."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.folder = folder
        self.seen = b""
        self.fd, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 1000, 200, 0, 0))
        # The leader of a session that opens a terminal gets it as its own.
        opening = 'exec "$@" <>"$0" >&0 2>&0'
        self.process = subprocess.Popen(
            ["sh", "-c", opening, os.ttyname(theirs), *words],
            cwd=folder, env=shell_env(folder), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.theirs = theirs

    def type(self, text: str, sign: Path) -> None:
        """Type until the file `sign` is there."""
        sign.unlink(missing_ok=True)
        os.write(self.fd, text.encode())
        wait_until(
            lambda: self._read() or sign.exists(), PATIENCE, f"{sign.name} after {text!r}: {self.seen!r}"
        )

    def _read(self) -> None:
        while select.select([self.fd], [], [], 0)[0]:
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                return

    def close(self) -> None:
        signal_quietly(self.process.pid, signal.SIGHUP)
        signal_quietly(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)
        os.close(self.theirs)


class Shell:
    """One kind of shell in a directory: what it offers for lines, by the script in the file `script`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        self.program: str = found

    def run(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *words], cwd=self.folder, env=shell_env(self.folder), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, **options,
        )  # type: ignore[call-overload]  # fmt: skip

    def offers(self, lines: list[str]) -> dict[str, list[str]]:
        """What is offered for each line; in fish with a tab and its description."""
        (self.folder / "lines").write_text("".join(line + "\n" for line in lines))
        out = self.folder / "out"
        out.write_text("")
        if self.name == "zsh":
            self._in_terminal()
        else:
            words = ["-c", FISH] if self.name == "fish" else ["--norc", "-c", BASH]
            done = self.run(*words)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        found = {}
        for part in ("\n" + out.read_text()).split("\n==")[1:]:
            head, *rest = part.split("\n")
            found[head] = [word for word in rest if word]
        assert set(found) == set(lines), set(found) ^ set(lines)
        return found

    def _in_terminal(self) -> None:
        (self.folder / "rc").write_text(ZSH)
        ready = self.folder / "ready"
        terminal = Terminal([self.program, "-f", "-i"], self.folder)
        try:
            terminal.type("source ./rc; : >ready\r", ready)
            terminal.type("\x18d", ready)
        finally:
            terminal.close()

    def calls(self) -> list[str]:
        """The calls of spoolctl since the last look."""
        path = self.folder / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found
