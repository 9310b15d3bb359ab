"""A worker that is told to stop at any moment, or whose terminal goes away, leaves nothing half done
(SPEC 5): nothing of its trees runs, nothing is `running` without an owner, and no budget is spent.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import signal
import subprocess
import sys
import time

import pytest
from looking import change, last, rows, started, told
from support import alive, clean_env, command, wait_until
from workers import DEAF, GIVE_AWAY, GO, given_away, hooked, kill, scripted, state_of, tell

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


def nothing_half_done(spool):
    """No owner without a worker, no worker without a process, no attempt that nobody ends."""
    assert rows(spool, "SELECT id FROM jobs WHERE state = 'running'") == []
    assert rows(spool, "SELECT job_id FROM attempts WHERE state = 'running'") == []
    assert rows(spool, "SELECT label FROM workers") == []
    assert os.listdir(spool.db.parent / "workers") == []
    assert rows(spool, "SELECT id FROM jobs WHERE attempts > 0 OR crashes > 0") == []


# --- at every moment --------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", ["claimed", "spawned", "recorded", "written down"])
def test_told_between_claim_spawn_and_record_a_job_runs_whole_or_is_given_back(spool, point, times):
    script = (
        "echo begun >>log; sleep 0.3; echo over >>log" if times == 1 else "setsid sleep 300 & exec sleep 300"
    )
    jobs = [spool.add("--max-retries", "0", "--max-crashes", "0", "-c", script) for _ in range(3)]
    worker = hooked(spool, point, signal.SIGTERM, "work", "--json", "-j", "3", times=times)
    assert worker.wait(30) == 0
    nothing_half_done(spool)
    states = [spool.state(job) for job in jobs]
    # The three are claimed in one transaction. Told after it, none is started; told during the first
    # start, that one is finished and the others are given back; told later, all are finished.
    runs = {"recorded": 0, "claimed": 1, "spawned": 1, "written down": 3}[point] if times == 1 else 0
    assert states == ["done"] * runs + ["queued"] * (3 - runs)
    for job, state in zip(jobs, states, strict=True):
        assert told(spool, job) == ["added", "claimed", "succeeded" if state == "done" else "interrupted"]
    if times == 1 and runs:
        assert sorted((spool.path / "log").read_text().split()) == ["begun"] * runs + ["over"] * runs
    # `spool` fails this test when anything of the trees still runs.


def test_told_at_any_moment_a_busy_worker_costs_no_job_anything(spool):
    seed = int(time.time())
    draw = random.Random(seed)
    spool.json("add", "--from", "-", "--max-retries", "0", "--max-crashes", "0", stdin=b"sleep 0.01\n" * 400)
    for _ in range(14):
        worker = spool.start("work", "-j", str(draw.choice((1, 3))), stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0.02, 0.6))
        number, times = draw.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)), draw.choice((1, 2, 3))
        try:
            for _ in range(times):
                worker.send_signal(number)
                time.sleep(draw.uniform(0, 0.03))
            # Before it listens, or after its last word, the signal takes it as it takes any process; an
            # interrupted start of the interpreter itself is a 1.
            early = {-number, 1} if number == signal.SIGINT else {-number}
            assert worker.wait(20) in {0, *early}
            (running,) = rows(spool, "SELECT count(*) FROM jobs WHERE state = 'running'")[0]
            assert running == 0
        except BaseException:
            print(f"seed {seed}")
            raise
    spool.work("-j", "4", check=0)
    nothing_half_done(spool)
    assert spool.json("status")["counts"]["done"] == 400
    story = rows(spool, "SELECT job_id, event FROM job_events ORDER BY id")
    of_job: dict[int, list[str]] = {}
    for job, event in story:
        of_job.setdefault(job, []).append(event)
    for job, events in of_job.items():
        tries = (len(events) - 3) // 2
        assert events == ["added", *["claimed", "interrupted"] * tries, "claimed", "succeeded"], (seed, job)


def test_told_while_it_ends_the_tree_of_a_dead_worker_it_leaves_that_to_the_next(spool):
    deaf = spool.add("--max-crashes", "0", "-c", DEAF)
    first = spool.start("work", "--grace", "20")
    started(spool, deaf, b"up\n")
    kill(first)
    second = spool.start("work", "--json")
    wait_until(lambda: [w["alive"] for w in spool.json("status")["workers"]].count(True) == 1)
    began = time.monotonic()
    tell(second, signal.SIGTERM)
    assert second.wait(20) == 0
    assert time.monotonic() - began < 15  # not the grace of the other's tree
    assert (spool.state(deaf), spool.json("status")["orphaned"]) == ("running", 1)
    change(spool, "UPDATE workers SET grace = 0.2")
    spool.work(check=0)
    assert told(spool, deaf) == ["added", "claimed", "reaped", "dead"]


# --- a terminal -------------------------------------------------------------------------------------------


class Terminal:
    """A worker that leads the session of a terminal, or runs below a shell that does."""

    def __init__(self, spool, *tokens, shell=False):
        line = command("work", "--worker-id", "on a terminal", *tokens)
        if shell:
            line = ["sh", "-c", '"$@"; true', "sh", *line]
        pid, self.fd = pty.fork()
        if pid == 0:
            try:
                os.chdir(spool.path)
                os.execve(line[0] if not shell else "/bin/sh", line, clean_env())
            finally:
                os._exit(99)
        self.pid = pid  # of the session's leader
        os.set_blocking(self.fd, False)
        self.status = None
        self.seen = b""

    def ended(self):
        self.read()
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def send_signal(self, number):
        """By its key, as `tell` does it with any process."""
        assert number == signal.SIGINT
        shown = self.read().count(b"^C")
        os.write(self.fd, b"\x03")
        wait_until(lambda: self.read().count(b"^C") > shown, 20, "the echo, which comes after the signal")

    def poll(self):
        return self.status if self.ended() else None

    def read(self):
        """All that it showed so far."""
        try:
            self.seen += os.read(self.fd, 65536) if self.fd >= 0 else b""
        except OSError:
            pass
        return self.seen

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def kill(self):
        self.close()
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(spool):
    made = []

    def make(*tokens, **how):
        made.append(Terminal(spool, *tokens, **how))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def worker_pid(spool):
    return wait_until(lambda: spool.json("status")["workers"], 20)[0]["pid"]


def test_a_closed_terminal_lets_the_job_in_hand_end_and_takes_no_more(spool, terminal):
    running = spool.add("-c", f"echo begun; {GO}; echo over")
    waiting = spool.add("--", "true")
    worker = terminal()
    leader = started(spool, running)
    assert os.getsid(leader) == leader != os.getsid(worker.pid) == worker.pid
    worker.close()
    later = spool.add("--", "true")
    # It was told: nothing more is claimed although a place is free only when the job ends.
    (spool.path / "go").touch()
    spool.wait_for(running, "done")
    wait_until(worker.ended, 20)
    assert worker.status in (0, 3)  # 3: its last word has nobody to go to
    assert (spool.output / str(running) / "1" / "stdout").read_bytes() == b"begun\nover\n"
    assert told(spool, running) == ["added", "claimed", "succeeded"]
    assert told(spool, waiting) == told(spool, later) == ["added"]
    nothing_half_done(spool)


def test_a_shell_that_dies_with_its_terminal_leaves_no_worker_and_no_job_behind(spool, terminal):
    running = spool.add("--max-retries", "0", "--max-crashes", "0", "-c", f"setsid sleep 300 & {GO}; exit 0")
    shell = terminal(shell=True)
    started(spool, running)
    pid = worker_pid(spool)
    assert pid != shell.pid
    shell.close()
    wait_until(shell.ended, 20)
    # Told once by the kernel, or twice with the death of the shell: it waits for the job, or gives it back.
    (spool.path / "go").touch()
    wait_until(lambda: not alive(pid), 20, "the end of the worker")
    nothing_half_done(spool)
    assert told(spool, running)[1:] in (["claimed", "succeeded"], ["claimed", "interrupted"])
    assert spool.state(running) in ("done", "queued")


@pytest.mark.parametrize("times", [1, 2])
def test_the_interrupt_key_reaches_the_worker_and_not_its_jobs(spool, terminal, times):
    running = spool.add("--max-retries", "0", "-c", f"trap 'echo heard' INT; echo up; {GO}; exit 0")
    waiting = spool.add("--", "true")
    worker = terminal()
    leader = started(spool, running)
    out = spool.output / str(running) / "1" / "stdout"
    wait_until(lambda: out.read_bytes() == b"up\n")
    tell(worker, *[signal.SIGINT] * times)
    if times == 1:
        assert alive(leader) and not worker.ended()
        (spool.path / "go").touch()
    wait_until(worker.ended, 20)
    assert worker.status == 0
    assert b"heard" not in out.read_bytes()
    assert told(spool, running) == ["added", "claimed", "succeeded" if times == 1 else "interrupted"]
    assert told(spool, waiting) == ["added"]
    nothing_half_done(spool)


def test_a_terminal_that_nobody_reads_does_not_stop_the_queue(spool, terminal):
    """As one behind a connection that hangs: a line that does not fit is dropped, the worker never waits."""
    line = '{"argv": ["' + "no-such-program-" * 15 + '"]}\n'  # named in the line that is told
    spool.json("add", "--from", "-", "--max-retries", "0", stdin=line.encode() * 60)
    worker = terminal()
    wait_until(lambda: spool.json("status")["counts"]["dead"] == 60, 60)
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(worker.ended, 20)
    nothing = rows(spool, "SELECT label FROM workers")
    assert (worker.status, nothing) == (0, [])


# --- many attempts, each in another state -----------------------------------------------------------------


# A worker that stops itself between the answer to a request and what it does about it.
STOPS_AT_REQUEST = """
import os, signal
from spoolctl import hooks
from spoolctl.store import control
stamp = control.stamp
def stop():
    del hooks.AT["gate left"]
    os.kill(os.getpid(), signal.SIGSTOP)
def stamped(*args):
    stamp(*args)
    hooks.AT["gate left"] = stop
control.stamp = stamped
from spoolctl.__main__ import main
main()
"""


def test_a_worker_with_attempts_in_every_state_records_what_ended_and_leaves_the_stuck_one_to_others(spool):
    once = ("--max-retries", "0")
    with given_away(spool) as receive:
        stuck = spool.add(*once, "--max-crashes", "0", "--", sys.executable, "-c", GIVE_AWAY)
        deaf = spool.add(*once, "-c", DEAF)
        quick = spool.add(*once, "-c", "until [ -e quick ]; do sleep 0.02; done; exit 3")
        whole = spool.add(*once, "-c", f"setsid sleep 300 & {GO}; exit 0")
        worker = scripted(spool, STOPS_AT_REQUEST, "work", "--json", "-j", "4", "--grace", "2")
        held = receive()
    with held:
        pids = [started(spool, job) for job in (deaf, quick, whole)]
        wait_until(lambda: spool.show(stuck)["job"]["ending"], 20)
        cancel = spool.start("cancel", str(deaf), "--running", "--yes")
        wait_until(lambda: state_of(worker.pid) == "T", 20, "the owner to stop itself")
        assert rows(spool, "SELECT id FROM jobs WHERE request_seen_at")
        with open(spool.db.parent / "gate") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # from here on what ends is pending
            worker.send_signal(signal.SIGCONT)
            (spool.path / "quick").touch()
            wait_until(lambda: not alive(pids[1]), 20)
            tell(worker, signal.SIGTERM, signal.SIGINT)
            assert worker.poll() is None  # it has results to write
            assert {spool.state(job) for job in (stuck, deaf, quick, whole)} == {"running"}
        assert worker.wait(20) == 0
        assert not any(alive(pid) for pid in pids)
        assert cancel.wait(20) == 0
        assert (spool.state(deaf), last(spool, deaf)["state"]) == ("canceled", "canceled")
        assert (spool.state(quick), last(spool, quick)["exit_code"]) == ("dead", 3)
        assert (spool.state(whole), last(spool, whole)["failure_reason"]) == ("queued", "worker_shutdown")
        assert spool.show(whole)["job"]["attempts"] == 0
        assert spool.state(stuck) == "running"  # shown, with its owner's row, for the reapers
        assert spool.json("status")["orphaned"] == 1
        assert len(rows(spool, "SELECT label FROM workers")) == 1
    (spool.path / "go").touch()
    spool.work(check=0)
    assert told(spool, stuck)[-2:] == ["reaped", "dead"]
    assert rows(spool, "SELECT id FROM jobs WHERE state = 'running'") == []
    assert rows(spool, "SELECT label FROM workers") == []
