"""SPEC 5 and 6: proving a dead worker's tree gone on a machine where processes come and go all the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from looking import started, told
from support import clean_env, processes_of, wait_until
from workers import children_of, kill, state_of

from spoolctl.work import census, ending, probe

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

# A worker that dies before it has written down whom it started.
UNRECORDED = """
import os, signal, sys
from spoolctl import hooks
hooks.AT["spawned"] = lambda: os.kill(os.getpid(), signal.SIGKILL)
from spoolctl.__main__ import main
main()
"""

# New processes all the time, each of which spends its first moments in state D: its vfork ends only when
# the child has opened a pipe for which there is no writer yet.
BUSY_DISK = """
import os, time
children = []
for n in range(10**9):
    path = f"pipe.{n % 40}"
    if not os.path.exists(path):
        os.mkfifo(path)
    pid = os.fork()
    if pid == 0:
        opens = [(os.POSIX_SPAWN_OPEN, 0, path, 0, 0)]
        os.posix_spawn("/bin/sleep", ["sleep", "0.2"], {}, file_actions=opens)
        time.sleep(0.2)
        os._exit(0)
    children.append((pid, path))
    time.sleep(0.05)
    if len(children) > 4:
        pid, path = children.pop(0)
        os.close(os.open(path, os.O_RDWR))  # opens for both, and so lets the waiting child go on
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""


@pytest.fixture
def busy_disk(tmp_path_factory):
    """At every look there is a new process in state D."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_DISK], cwd=tmp_path_factory.mktemp("pipes"), env=clean_env(),
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: [state_of(pid) for pid in children_of(process.pid)].count("D") >= 2, 20)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_tree_is_proven_gone_although_somebody_is_always_in_state_d(spool, busy_disk):
    """Such a process cannot be asked for its token, but each of them can a moment later."""
    job = spool.add(
        "--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || { echo up; exec sleep 300; }"
    )
    worker = spool.start("work", "--json", "--grace", "0.5")
    started(spool, job, b"up")
    kill(worker)
    spool.work(check=0)
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]


def test_a_session_is_known_although_its_leader_was_never_written_down(spool):
    """What the leader starts as it is ended has neither token nor lock, and shows by its session alone."""
    child = "env -i sleep 300 >/dev/null 2>&1 9>&- & exit 0"
    script = f"trap '{child}' TERM; echo up; while :; do sleep 0.02; done"
    job = spool.add("--backoff-base", "0", "-c", f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {script}; }}")
    line = [sys.executable, "-c", UNRECORDED, "work"]
    worker = subprocess.run(line, cwd=spool.path, env=clean_env(), start_new_session=True, timeout=30)
    assert worker.returncode == -signal.SIGKILL
    assert spool.show(job)["attempts"][0]["pid"] is None
    out = spool.output / str(job) / "1" / "stdout"
    wait_until(lambda: out.exists() and out.read_bytes(), 20)
    spool.work(check=0)
    assert spool.state(job) == "done"
    assert processes_of(spool.path, spool.db) == []


class Hidden:
    """A tree of which nobody is seen; `held`: somebody has its capture lock all the same."""

    inside = close_to_proof = False

    def __init__(self, held):
        self.held = held

    def members(self, scene):
        return []

    def unanswered(self):
        return [4711]

    def gone(self, members):
        return False

    def unseen(self):
        return not self.held

    def signal_group(self, number):
        return False

    def strike(self):
        return set()


@pytest.mark.parametrize(("held", "after"), [(True, 2), (False, 10)])
def test_a_tree_of_which_nothing_is_seen_is_not_called_stuck_at_once(monkeypatch, held, after):
    now = [100.0]
    monkeypatch.setattr(ending.clock, "monotonic", lambda: now[0])
    one = ending.Ending(Hidden(held), 1.0)
    now[0] += 3.0  # late, for we were stopped ourselves: what counts is when KILL was sent
    assert one.step() == ending.ENDING
    now[0] += after - 0.1
    assert one.step() == ending.ENDING
    assert one.at <= now[0] + 0.1
    now[0] += 0.1
    assert one.step() == ending.STUCK
    assert one.pids == [4711]


# --- asking once for all ----------------------------------------------------------------------------------


@pytest.fixture
def unhurried(monkeypatch):
    """On a slow machine a helper that is late answers all the same, and none is asked again."""
    monkeypatch.setattr(probe, "LIMIT", 60.0)


@pytest.fixture
def asked(monkeypatch, unhurried):
    """What each helper was asked."""
    seen = []

    class Counted(census.Probe):
        def __init__(self, pids, others=False):
            seen.append(sorted(pids))
            super().__init__(pids, others)

    monkeypatch.setattr(census, "Probe", Counted)
    return seen


@pytest.fixture
def marked():
    """(pid, start) of a process that carries a token."""
    process = subprocess.Popen(
        ["sleep", "300"], env={"SPOOLCTL_ATTEMPT_TOKEN": "abc", "PATH": os.environ["PATH"]}
    )
    yield process.pid, 1
    process.kill()
    process.wait()


def heard(one, key, since):
    def answer():
        one.hear()
        return one.answer(key, since)

    return wait_until(answer, 20)


def test_all_trees_share_what_one_helper_was_told(asked, marked, monkeypatch):
    one = census.Census()
    me = (os.getpid(), 1)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(census.Probe, "poll", lambda helper: None)  # it is still at it
        for tree in ("a", "b", "c"):
            one.want(tree, {marked, me}, 0.0)
    assert heard(one, marked, 0.0) == "abc"
    assert one.answer(me, 0.0) == "-"
    assert len(asked) == 1
    assert asked[0] == sorted((marked[0], me[0]))


def test_an_answer_from_before_a_tree_was_made_is_none_for_it(asked, marked):
    one = census.Census()
    one.want("old", {marked}, 0.0)
    assert heard(one, marked, 0.0) == "abc"
    later = census.clock.monotonic()
    assert one.answer(marked, later) is None
    one.want("new", {marked}, later)
    assert heard(one, marked, later) == "abc"
    assert len(asked) == 2


def test_what_is_wanted_while_a_helper_asks_is_asked_next(asked, marked):
    one = census.Census()
    me = (os.getpid(), 1)
    one.want("a", {marked}, 0.0)
    one.want("b", {marked, me}, 0.0)
    assert heard(one, me, 0.0) == "-"
    assert asked == [[marked[0]], [me[0]]]


def test_everything_is_forgotten_with_the_last_that_asked(asked, marked):
    one = census.Census()
    one.want("a", {marked}, 0.0)
    one.want("b", {marked}, 0.0)
    one.leave("a")
    assert heard(one, marked, 0.0) == "abc"
    one.leave("b")
    assert one.answer(marked, 0.0) is None


def test_who_carries_a_token_is_told_although_nobody_asked_for_it(asked, marked):
    """It may have left before the next look, and someone that it started may be there."""
    one = census.Census()
    me = (os.getpid(), 1)
    one.want("a", {me}, 0.0)
    assert heard(one, me, 0.0) == "-"
    assert marked[0] in {pid for pid, _ in one.carriers["abc"]}


def answered(pid):
    """What a helper says of one process, None for nothing."""
    one = probe.Probe([pid])
    return wait_until(lambda: [] if (said := one.poll()) is None else [said], 20)[0].get(pid)


# The main thread has ended, another one goes on: the environment of the process is empty, the thread's not.
THREAD = (
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(300,)).start(); "
    "print(flush=True); ctypes.CDLL(None).pthread_exit(None)"
)
# Executes itself again and again: there are moments at which there is nothing to read.
EXEC = (
    "import os, sys; len(sys.argv) > 2 or print(flush=True); "
    "os.execve(sys.executable, ['python', '-ISc', sys.argv[1], sys.argv[1], 'again'], os.environ)"
)


@pytest.mark.parametrize(("program", "times"), [(THREAD, 1), (EXEC, 25)], ids=["a thread", "exec"])
def test_nothing_to_read_is_not_no_token(program, times, unhurried):
    with subprocess.Popen(
        [sys.executable, "-ISc", program, program], stdout=subprocess.PIPE,
        env={"SPOOLCTL_ATTEMPT_TOKEN": "abc", "PATH": os.environ["PATH"]},
    ) as process:  # fmt: skip
        try:
            process.stdout.readline()
            if program == THREAD:
                wait_until(lambda: state_of(process.pid) == "Z", 20)
            answers = {answered(process.pid) for _ in range(times)}
            assert "-" not in answers
            assert "abc" in answers
        finally:
            process.kill()


def test_no_environment_at_all_is_no_token(unhurried):
    with subprocess.Popen(["sleep", "300"], env={}) as process:
        try:
            wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep"), 10)
            assert answered(process.pid) == "-"
        finally:
            process.kill()


def test_those_that_have_ended_are_forgotten_while_somebody_asks(asked, marked):
    one = census.Census()
    one.want("a", {marked}, 0.0)
    assert heard(one, marked, 0.0) == "abc"
    for n in range(1000):
        one._answers[10**7 + n, 1] = ("-", 1.0)
        one.carriers[f"token {n}"] = {(10**7 + n, 1)}
    one.forget_all_but({marked})
    assert one.answer(marked, 0.0) == "abc"
    assert list(one.carriers.values()) == [{marked}]
    assert len(one._answers) == 1
