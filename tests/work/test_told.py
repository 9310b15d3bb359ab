"""Being told, between processes: whoever waits acts on a commit at once, and all the same when no touch came.

A poll interval of an hour shows that somebody was told: without a touch the test would not end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from asking import PATIENT, asked, limited
from looking import printed, started, told
from support import checked_line, clean_env, command, document, finish, wait_until
from workers import hooked, scripted, state_of, stop

NEVER = ("--poll-interval", "3600")
SOON = ("--poll-interval", "0.1")

# A worker that never looks by itself, but when it is told.
TOLD_ONLY = """
from spoolctl.contract import limits
limits.OWNERS_EVERY = 3600.0
from spoolctl.work import turn
turn.REQUESTS_EVERY = 3600.0
"""
# The system has nothing to watch a file with.
UNTOLD = """
from spoolctl import watch
def nothing(path):
    raise OSError("no watches")
watch.mechanism = lambda: nothing
"""
GOES = "from spoolctl.__main__ import main; main()"


def watches(process):
    """Wait until the process watches the wake file and sleeps; without /proc, long enough."""
    fds = f"/proc/{process.pid}/fd"
    if not os.path.exists(fds):
        time.sleep(1.5)
        return process

    def asleep():
        assert process.poll() is None, process.communicate()
        held = {_target(f"{fds}/{fd}") for fd in os.listdir(fds)}
        with open(f"/proc/{process.pid}/wchan") as place:
            return "anon_inode:inotify" in held and "poll" in place.read()

    wait_until(asleep, 20, "a process that watches")
    return process


def _target(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def worker(spool, *tokens, program=TOLD_ONLY):
    return scripted(spool, program + GOES, "work", "--json", *NEVER, *tokens)


def follower(spool, *tokens):
    return spool.start("events", "--follow", "--json", *NEVER, *tokens)


def lines(process):
    """Whatever a follower says until it ends with status 0."""
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    return [checked_line(line, ["events", "--follow", "--json"]) for line in out.decode().splitlines()]


def test_an_idle_worker_a_waiter_and_followers_are_told_of_a_job_and_its_end(spool):
    first = spool.add("--after", "1h", "--", "true")
    idle = watches(worker(spool))
    follow = watches(follower(spool, "--since-id", "1", "--max-events", "3"))
    page = watches(spool.start("events", "--json", "--since-id", "1", "--wait", *NEVER))
    waiter = watches(spool.start("wait", "--json", str(first), *NEVER))
    spool.run("retry", str(first), "--now", check=0)
    assert finish(waiter, check=0).data["all_succeeded"] is True
    assert finish(page, check=0).meta["wait"]["reason"] == "records_available"
    assert [line["event"] for line in lines(follow)[:-1]] == ["retried", "claimed", "succeeded"]
    later = spool.add("--", "true")  # while it is idle again
    spool.wait_for(later, "done")
    assert idle.poll() is None


def test_a_busy_worker_is_told_of_requests(spool):
    patient = limited(PATIENT)
    busy = worker(spool, "-j", "2")
    for verb, flags in (("cancel", ("--running", "--yes")), ("retry", ("--force",))):
        job = spool.add("-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300")
        started(spool, job)
        watches(busy)
        caller = scripted(spool, patient, verb, "--json", str(job), *flags)
        assert caller.wait(40) == 0, caller.communicate()
    spool.wait_for(job, "done")  # it is told of its own job that is queued again, too
    assert told(spool, job)[:3] == ["added", "claimed", "retried"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_worker_that_is_told_while_it_has_a_result_to_record_heeds_both(spool):
    asked_of = spool.add("-c", "echo up; exec sleep 300")
    ends = spool.add("-c", "echo up; until [ -e go ]; do sleep 0.02; done")
    busy = worker(
        spool, "-j", "2", "--max-jobs", "2"
    )  # afterwards it takes nothing, and does not look for it
    pids = [started(spool, job, b"up") for job in (asked_of, ends)]
    stop(watches(busy))
    caller = asked(spool, "cancel", asked_of, PATIENT)
    (spool.path / "go").touch()
    wait_until(lambda: state_of(pids[1]) == "Z", 20, "the end of the other")
    busy.send_signal(signal.SIGCONT)
    assert finish(caller, check=0).data["state"] == "canceled"
    assert spool.state(ends) == "done"


# Somebody commits after the first look, just before the watch begins.
MEANWHILE = """
import subprocess, sys
from spoolctl import watch
begins = watch.mechanism
def late():
    subprocess.run([sys.executable, "-m", "spoolctl", *meanwhile], check=True, capture_output=True)
    watch.mechanism = begins
    return begins()
watch.mechanism = late
"""


@pytest.mark.parametrize(
    ("words", "meanwhile"),
    [
        (("work", "--max-jobs", "1"), ("retry", "1", "--now")),
        (("wait", "1"), ("cancel", "1")),
        (("events", "--since-id", "1", "--wait"), ("cancel", "1")),
        (("events", "--since-id", "1", "--follow", "--max-events", "1"), ("cancel", "1")),
    ],
    ids=lambda words: " ".join(words),
)
def test_what_is_committed_while_a_watch_begins_is_seen(spool, words, meanwhile):
    spool.add("--after", "1h", "--", "true")
    program = f"meanwhile = {meanwhile!r}\n{MEANWHILE}{TOLD_ONLY}{GOES}"
    process = scripted(spool, program, *words, "--json", *NEVER)
    out, err = process.communicate(timeout=20)
    assert process.returncode == (6 if words[0] == "wait" else 0), err
    assert b'"timeout"' not in out


def test_a_job_in_another_lane_a_claim_and_its_own_results_leave_a_worker_asleep_afterwards(spool):
    """It looks when it is told, and again for what it did itself, but not on and on."""
    counts = """
from spoolctl.work import turn
look = turn.look
def counted(shift):
    with open("looks", "a") as looks:
        looks.write("x")
    look(shift)
turn.look = counted
"""
    watches(worker(spool, "-j", "2", program=TOLD_ONLY + counts))
    looks = spool.path / "looks"
    seen = looks.stat().st_size
    spool.add("--queue", "other", "--", "true")
    wait_until(lambda: looks.stat().st_size > seen, 20, "a look")
    job = spool.add("-c", "echo up; exec sleep 300")
    started(spool, job, b"up")
    time.sleep(1)
    assert looks.stat().st_size < seen + 20


def test_without_a_watch_all_find_it_within_a_poll_interval(spool):
    first = spool.add("--after", "1h", "--", "true")
    words = {
        "work": ("--json", *SOON, "--max-jobs", "1"),
        "wait": ("--json", str(first), *SOON),
        "events": ("--json", "--since-id", "1", "--wait", *SOON),
    }
    asked = {verb: scripted(spool, UNTOLD + GOES, verb, *more) for verb, more in words.items()}
    time.sleep(0.3)
    spool.run("retry", str(first), "--now", check=0)
    for verb, process in asked.items():
        out, err = process.communicate(timeout=40)
        document(out, verb, *words[verb], status=process.returncode)
    assert spool.state(first) == "done"


def test_a_commit_whose_touch_is_lost_is_found_within_a_poll_interval(spool):
    """Its writer is killed between the two."""

    def killed(*words):
        adder = hooked(spool, "gate left", signal.SIGKILL, "add", *words)
        assert adder.wait(20) == -signal.SIGKILL

    spool.add("--after", "1h", "--", "true")
    wake = spool.db.parent / "wake"
    os.utime(wake, (1, 1))
    killed("--queue", "other", "--", "true")
    assert wake.stat().st_mtime == 1
    idle = watches(spool.start("work", "--json", *SOON, "--max-jobs", "1"))
    waiter = watches(spool.start("events", "--json", "--since-id", "2", "--wait", *SOON))
    killed("--", "echo", "found")
    assert finish(waiter, check=0).data["events"][0]["job_id"] == 3
    assert idle.wait(20) == 0
    assert printed(spool, 3) == b"found\n"


@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")
@pytest.mark.parametrize("when", ["delay_enter", "delay_exit"])
def test_with_a_slow_disk_the_touch_comes_when_the_commit_can_be_seen(spool, when):
    spool.add("--after", "1h", "--", "true")
    watches(worker(spool, "--max-jobs", "1"))
    follow = watches(follower(spool, "--max-events", "1"))
    strace = [
        "strace",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        "trace=fdatasync",
        "-e",
        f"inject=fdatasync:{when}=50000",
    ]
    done = subprocess.run(
        [*strace, *command("add", "--json", "--", "true")], cwd=spool.path, env=clean_env(),
        capture_output=True, timeout=60,
    )  # fmt: skip
    if b"strace" in done.stderr or b"ptrace" in done.stderr:
        pytest.skip(f"strace cannot delay: {done.stderr[:200]!r}")
    job = document(done.stdout, "add", status=done.returncode)["data"]["job_id"]
    assert lines(follow)[0]["job_id"] == job
    spool.wait_for(job, "done")


def test_twelve_watchers_all_hear_every_commit_and_the_writer_goes_on(spool):
    spool.add()
    watchers = [follower(spool, "--max-events", "60") for _ in range(12)]
    for one in watchers:
        watches(one)
    for _ in range(60):
        spool.add()
    for one in watchers:
        assert [line["job_id"] for line in lines(one)[:-1]] == list(range(2, 62))


def test_a_wake_file_that_is_removed_or_replaced_is_watched_anew(spool):
    spool.add()
    follow = watches(follower(spool, "--max-events", "3"))
    idle = watches(worker(spool, "--queue", "other"))
    wake = spool.db.parent / "wake"

    def anew():
        """Both have seen it go, and watch what is there now."""
        if os.path.exists("/proc/self/fdinfo"):
            inode = f"ino:{wake.stat().st_ino:x} " if wake.exists() else "nothing"
            return all(inode in _watched(one.pid) for one in (follow, idle))
        return wake.exists()

    for change in (wake.unlink, lambda: os.replace(_new(spool), wake)):
        change()
        wait_until(anew, 20, "both to watch the new file")
        spool.add()
    job = spool.add("--queue", "other", "--", "true")
    assert len(lines(follow)) == 4
    spool.wait_for(job, "done")
    assert wake.stat().st_mode & 0o777 == 0o600


def _new(spool):
    path = spool.db.parent / "wake.new"
    path.touch(0o600)
    return path


def _watched(pid):
    found = ""
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}") as info:
                found += info.read()
        except OSError:
            pass
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_followers_of_a_queue_that_is_not_there_watch_it_once_it_is(spool):
    process = spool.start("events", "--follow", "--json", "--poll-interval", "0.05", "--max-events", "1")
    time.sleep(0.3)
    assert spool.files() == []
    spool.add("--after", "1h", "--", "true")
    assert len(lines(process)) == 2
    process = spool.start("events", "--follow", "--json", "--poll-interval", "0.05", "--db", "late.db")
    time.sleep(0.2)
    spool.run("add", "--db", "late.db", "--", "true", check=0)
    assert process.stdout.readline()
    watches(process)
