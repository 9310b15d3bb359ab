"""What the kernel says of processes: Linux by its text, macOS by recorded values, and a worker that has
none of what only Linux gives (no adoption, no tokens, no pidfd, no waitid): all it has are sessions,
start times and the capture lock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import pytest
from looking import pid_in, started
from support import alive, wait_until
from workers import kill, scripted

from spoolctl.work import darwin, deaths, identity, linux, proc

# --- Linux ------------------------------------------------------------------------------------------------

LINE = (
    "{pid} ({name}) {state} 41 4242 4240 0 -1 4194304 88 0 0 0 0 1 0 0 20 0 {threads} 0 98765 2473984 200 "
    "18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


@pytest.mark.parametrize("name", ["sh", "", "a b", "x) R 1 2 3", "(()", "\n", "é"])
def test_a_process_is_read_whatever_its_name_is(name):
    fields = linux.parse(LINE.format(pid=4242, name=name, state="S", threads=3).encode())
    one = proc.Stat(*fields)
    assert (one.pid, one.ppid, one.pgrp, one.session) == (4242, 41, 4242, 4240)
    assert (one.state, one.threads, one.start, one.gone) == (b"S", 3, 98765, False)


@pytest.mark.parametrize(
    ("state", "threads", "gone"),
    [("Z", 1, True), ("Z", 2, False), ("X", 1, True), ("T", 1, False), ("D", 1, False)],
)
def test_only_a_zombie_of_one_thread_is_gone(state, threads, gone):
    fields = linux.parse(LINE.format(pid=7, name="x", state=state, threads=threads).encode())
    assert proc.Stat(*fields).gone is gone


@pytest.mark.parametrize("text", ["", "7", "7 (x", "7 (x) S", "7 (x) S 1 2 three", "x (x) S 1 2 3 4 5 6"])
def test_what_cannot_be_read_is_nobody(text):
    assert linux.parse(text.encode()) is None


# --- macOS ------------------------------------------------------------------------------------------------


class BsdInfo(ctypes.Structure):
    """struct proc_bsdinfo as <sys/proc_info.h> has it."""

    _fields_ = [
        ("pbi_flags", ctypes.c_uint32), ("pbi_status", ctypes.c_uint32), ("pbi_xstatus", ctypes.c_uint32),
        ("pbi_pid", ctypes.c_uint32), ("pbi_ppid", ctypes.c_uint32), ("pbi_uid", ctypes.c_uint32),
        ("pbi_gid", ctypes.c_uint32), ("pbi_ruid", ctypes.c_uint32), ("pbi_rgid", ctypes.c_uint32),
        ("pbi_svuid", ctypes.c_uint32), ("pbi_svgid", ctypes.c_uint32), ("rfu_1", ctypes.c_uint32),
        ("pbi_comm", ctypes.c_char * 16), ("pbi_name", ctypes.c_char * 32), ("pbi_nfiles", ctypes.c_uint32),
        ("pbi_pgid", ctypes.c_uint32), ("pbi_pjobc", ctypes.c_uint32), ("e_tdev", ctypes.c_uint32),
        ("e_tpgid", ctypes.c_uint32), ("pbi_nice", ctypes.c_int32), ("pbi_start_tvsec", ctypes.c_uint64),
        ("pbi_start_tvusec", ctypes.c_uint64),
    ]  # fmt: skip


# A shell on macOS 14, started at 2023-11-14 22:13:20.123456 UTC; and what is left of it when it ended.
SHELL = BsdInfo(
    0x4004, 2, 0, 68123, 501, 502, 20, 502, 20, 502, 20, 0, b"sh", b"sh", 3, 68123, 1, 0x10000001, 68123, 0,
    1_700_000_000, 123_456,
)  # fmt: skip
ENDED = BsdInfo(
    0x2000, 5, 0x0F00, 68123, 501, 502, 20, 502, 20, 502, 20, 0, b"sh", b"sh", 0, 68123, 0, 0, 0, 0,
    1_700_000_000, 123_456,
)  # fmt: skip


class LibProc:
    """libproc with one process in it."""

    def __init__(self, info):
        self.info = info

    def proc_pidinfo(self, pid, flavor, arg, buffer, size):
        assert (flavor, arg.value, size) == (3, 1, 136)
        if pid != self.info.pbi_pid:
            return 0
        buffer[:] = bytes(self.info)
        return size

    def proc_listpids(self, kind, info, buffer, size):
        assert (kind, info) == (1, 0)
        if buffer is None:
            return 4
        buffer[0], buffer[1] = 0, self.info.pbi_pid
        return 8


@pytest.fixture
def mac(monkeypatch):
    """`proc` as on macOS, with this one process."""

    def show(info, session=68123):
        monkeypatch.setattr(darwin, "_libproc", lambda: LibProc(info))
        monkeypatch.setattr(os, "getsid", lambda pid: session)
        monkeypatch.setattr(proc, "system", darwin)

    return show


def test_macos_tells_a_process_by_its_start_in_microseconds(mac):
    assert ctypes.sizeof(BsdInfo) == darwin.SIZE
    mac(SHELL, session=68100)
    (one,) = proc.all_stats()
    assert (one.pid, one.ppid, one.pgrp, one.session) == (68123, 501, 68123, 68100)
    assert (one.start, one.gone, darwin.uid(68123)) == (1_700_000_000_123_456, False, 502)
    assert proc.stat(68124) is None
    assert darwin.uid(68124) is None


def test_macos_tells_a_zombie(mac):
    mac(ENDED)
    one = proc.stat(68123)
    assert one.gone
    assert one.start == 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("info", "start", "verdict"),
    [
        (SHELL, 1_700_000_000_123_456, identity.ALIVE), (SHELL, 1_700_000_000_123_455, identity.DEAD),
        (SHELL, None, identity.UNKNOWN), (ENDED, 1_700_000_000_123_456, identity.DEAD),
    ],
)  # fmt: skip
def test_a_worker_on_macos_is_judged_by_its_start(mac, monkeypatch, info, start, verdict):
    mac(info)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    assert identity.process_witness(68123, start) == verdict


def test_a_short_answer_of_libproc_is_none():
    assert darwin.parse(bytes(SHELL)[:-1]) is None


# --- told of a death --------------------------------------------------------------------------------------


def test_the_end_of_a_process_that_is_no_child_is_told_once():
    watch = deaths.open_deaths()
    if watch is None:
        pytest.skip("this system has neither pidfd nor kqueue")
    with subprocess.Popen(["sh", "-c", "sleep 300 & echo $!; read x"], stdin=-1, stdout=-1) as shell:
        other = int(shell.stdout.readline())
        try:
            watch.watch({other, shell.pid, 2**22 + 1})  # and one that there is not
            assert not watch.heard()
            os.kill(other, signal.SIGKILL)
            wait_until(watch.heard, 10)
            watch.watch({other, shell.pid})
            assert not watch.heard()
        finally:
            shell.kill()
        wait_until(watch.heard, 10)
    watch.watch(set())
    assert not watch.heard()
    watch.close()


# --- a worker without what only Linux gives ---------------------------------------------------------------

PLAIN = """
import os, signal, sys
from spoolctl.work import proc, start
del os.pidfd_open, os.waitid, signal.pidfd_send_signal
class NoList:
    open = classmethod(lambda cls: None)
proc.TOKENS, proc.ChildList, proc.locks = False, NoList, lambda pid, prefix: []
start.become_subreaper = lambda: False
from spoolctl.__main__ import main
main()
"""
plain_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="takes away what Linux has")


def plain(spool, *tokens):
    """A worker as it would be elsewhere."""
    return scripted(spool, PLAIN, "work", "--json", *tokens)


@plain_only
def test_without_adoption_or_tokens_jobs_run_end_and_take_their_session_along(spool):
    fine = spool.add("--", "true")
    fails = spool.add("--max-retries", "0", "-c", "kill -9 $$")
    leaves = spool.add("-c", "sleep 300 & exit 0")
    slow = spool.add("--timeout", "0.3", "--max-retries", "0", "-c", "trap '' TERM; sleep 300 & wait; wait")
    worker = plain(spool, "-j", "4", "--drain", "--grace", "0.3")
    assert worker.wait(40) == 0, worker.stderr.read()
    ends = [spool.show(job)["attempts"][0] for job in (fine, fails, leaves, slow)]
    assert [one["state"] for one in ends] == ["succeeded", "failed", "succeeded", "timed_out"]
    assert ends[1]["signal"] == "SIGKILL"
    events = spool.show(leaves)["events"]
    assert events[-1]["detail"] == "ended 1 left processes"


@plain_only
def test_without_tokens_the_capture_lock_holds_the_job_back_until_its_tree_is_gone(spool):
    # The escaped one is nobody's child and in no session of ours: all that shows it is the lock.
    script = "(setsid sh -c 'echo $$ >pid; exec sleep 300' &); sleep 300"
    job = spool.add("--backoff-base", "0", "-c", f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {script}; }}")
    worker = plain(spool, "--grace", "0.2")
    spool.wait_for(job, "running")
    pid = pid_in(spool.path / "pid")
    leader = started(spool, job)
    kill(worker)
    plain(spool)
    wait_until(lambda: not alive(leader), 20)
    wait_until(lambda: spool.show(job)["job"]["ending"], 20)  # held, and shown
    assert (alive(pid), spool.state(job)) == (True, "running")
    os.kill(pid, signal.SIGKILL)
    spool.wait_for(job, "done")


@plain_only
def test_without_pidfd_a_dead_owner_is_found_by_the_look_once_a_second(spool):
    job = spool.add("--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || sleep 300")
    worker = plain(spool)
    wait_until(lambda: spool.json("status")["workers"], 20)
    started(spool, job)
    plain(spool, "--queue", "other")
    wait_until(lambda: len(spool.json("status")["workers"]) == 2, 20)
    kill(worker)
    began = time.monotonic()
    spool.wait_for(job, "queued")
    assert time.monotonic() - began < 10  # promised are 2 s; this only tells it from never
    plain(spool, "--drain")
    spool.wait_for(job, "done")
