"""Workers in trouble, and the jobs for it: scripts that wait or hold on, workers that are started in a bad
way, stopped or killed at a chosen point, and what they say to people.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

from looking import printed
from support import Answer, checked, clean_env, command, wait_until

# --- scripts of jobs --------------------------------------------------------------------------------------

GO = "until [ -e go ]; do sleep 0.02; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.02; done"
STAYS = "trap '' TERM; echo up; until [ -e free ]; do sleep 0.02; done"  # whatever the signal, until then
# Every process of an attempt holds descriptor 9, and with it the lock: whoever starts too early says so.
ALONE = "exec 9>>alone; flock -n 9 || { echo overlap >>log; exit 0; }; echo start >>log; "

# A program that sends its capture file, and the lock with it, to whoever listens on the socket `s`.
GIVE_AWAY = (
    "import array, socket; s = socket.socket(socket.AF_UNIX); s.connect('s'); "
    "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])"
)


def _be_no_member():
    """Whoever holds a capture file and is not clearly older than the attempt belongs to its tree: so would
    this process, and be ended.
    """
    with open("/proc/self/stat") as stat:
        born = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > born + 2, 10)


@contextmanager
def given_away(spool):
    """Listens for GIVE_AWAY. The call that it yields waits for the file: as long as that is open, the
    attempt's tree is not proven gone.
    """
    _be_no_member()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(spool.path / "s"))
        listener.listen()
        listener.settimeout(20)

        def receive():
            theirs, _ = listener.accept()
            with closing(theirs):
                _, sent, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
            return open(array.array("i", sent[0][2])[0], "rb")

        yield receive


# --- starting them ----------------------------------------------------------------------------------------

# A call that sends itself a signal, one or more times, when it first passes a named point.
HOOKED = """
import os, sys
from spoolctl import hooks
point, number, times = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
def act():
    del hooks.AT[point]
    for _ in range(times):
        os.kill(os.getpid(), number)
hooks.AT[point] = act
from spoolctl.__main__ import main
main()
"""


def scripted(spool, program, *words):
    """A Python program that calls the tool after some change to it, as a process that goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], cwd=spool.path, env=clean_env(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    spool._started.append(process)
    return process


def hooked(spool, point, number, *tokens, times=1):
    """`spoolctl TOKENS` with a signal to itself at this point."""
    return scripted(spool, HOOKED, point, str(int(number)), str(times), *tokens)


def held(spool, *tokens):
    """A talking worker that stops itself once its first jobs are written down: it holds nothing then, and
    sees what happens meanwhile when it is continued.
    """
    worker = scripted(spool, TALKS + HOOKED, "written down", str(int(signal.SIGSTOP)), "1", "work", *tokens)
    wait_until(lambda: state_of(worker.pid) == "T", 20, "the worker to stop itself")
    return worker


def through(script):
    """A prefix of a command line: the shell does this first."""
    return ("sh", "-c", f'{script}; exec "$@"', "sh")


def worked(spool, *prefix, tokens=("--drain",), env=None, **popen):
    """A worker started through another command, which it replaces, to its end."""
    words = ["work", "--json", *tokens]
    environ = clean_env(**(env or {}))
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    done = subprocess.run([*prefix, *command(*words)], cwd=spool.path, env=environ, timeout=60, **options)
    return checked(Answer(words, done.returncode, done.stdout, done.stderr), environ)


def goes_on(spool, worker):
    """The worker takes a new job, and its output is kept."""
    job = spool.add("--", "echo", "goes on")
    spool.wait_for(job, "done")
    assert printed(spool, job) == b"goes on\n"
    assert worker.poll() is None


# --- what they say to people ------------------------------------------------------------------------------


# What a scripted worker says goes there too.
TALKS = "import os; os.dup2(os.open('lines', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)\n"


def talking(spool, *tokens):
    """A worker whose lines for people go to the file `lines`."""
    with open(spool.path / "lines", "ab") as lines:
        return spool.start("work", *tokens, stderr=lines)


def lines_of(spool, part=""):
    """The lines of talking workers that have this part."""
    return [line for line in (spool.path / "lines").read_text().splitlines() if part in line]


def dropped(job_id, number=1):
    """What a worker says when its result is refused."""
    return f"spoolctl: job {job_id} attempt {number} is not ours any more: result dropped"


def refusals(spool):
    return lines_of(spool, "not ours")


# --- processes and signals --------------------------------------------------------------------------------


def state_of(pid):
    """The letter of a process in /proc: T when it is stopped. None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def children_of(pid):
    """The pids of a process's children, zombies too."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found.update(map(int, file.read().split()))
    return found


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(20)


def stop(process):
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", 10)


@contextmanager
def stopped(process):
    """The process does not run inside the block."""
    stop(process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def tell(process, *numbers):
    """Signals that all arrive: the kernel, and then the interpreter, merge equal ones that are pending."""
    for number in numbers:
        process.send_signal(number)
        wait_until(lambda n=number: process.poll() is not None or not _pending(process.pid, n), 10)
        time.sleep(0.2)  # from taken by the interpreter to seen by the loop, which sleeps again then
        wait_until(lambda: process.poll() is not None or state_of(process.pid) != "R", 10)


def _pending(pid, number):
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    return int(fields["ShdPnd"], 16) >> (number - 1) & 1
