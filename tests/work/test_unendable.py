"""SPEC 5 and 6: a tree that cannot be ended is shown as ending, holds its slot and stops nothing else; and
what a request and `--unverified` do about it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from asking import AFTERWARDS, REQUEST, ask, limited, owner, settled, soak
from looking import details, pid_in, requested, started, told
from people import NOBODY
from support import alive, document, finish, processes_of, signal_quietly, wait_until
from workers import GIVE_AWAY, GO, dropped, given_away, kill, lines_of, stop, talking

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

LATE = {"TO_TELL": 20}  # of a caller that waits until it has found the tree stuck, however busy it is

# --- a member that became somebody else's -----------------------------------------------------------------

# The worker is a plain user that may pass on the right to change the user: its job can become root's, and the
# worker has no right to signal it then.
CAPS = "+setuid,+setgid"
PREFIX = (
    "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", f"--inh-caps={CAPS}",
    f"--ambient-caps={CAPS}",
)  # fmt: skip
ROOTED = "import os, time; os.setresuid(0, 0, 0); print(os.getpid(), flush=True); time.sleep(600)"


class Rooted:
    """A plain user's workers, and the members of their jobs that became root's."""

    def __init__(self, user) -> None:
        self.user = user
        self.workers: list[subprocess.Popen[bytes]] = []
        self.members: list[int] = []

    def script(self, last):
        """A job whose first attempt starts a member that becomes root's, and does this last."""
        return f"[ $SPOOLCTL_ATTEMPT -gt 1 ] && exit 0; {self.user.python} -c '{ROOTED}' & {last}"

    def work(self, *words):
        worker = self.user.start(
            "work", "--json", "--grace", "0.2", "--poll-interval", "0.1", *words, prefix=PREFIX
        )
        self.workers.append(worker)
        return worker

    def member(self, job_id, attempt_no=1):
        """The pid that the job's attempt printed, once it is root's."""
        pid = pid_in(self.user.path / f".spoolctl/output/{job_id}/{attempt_no}/stdout")
        assert os.stat(f"/proc/{pid}").st_uid == 0
        self.members.append(pid)
        return pid

    def force(self, job_id):
        """`retry --force --unverified`: its data."""
        flags = "retry --json --force --unverified"
        call = f"exec {self.user.python} -c '{limited(LATE)}' {flags} {job_id}"
        status, out = self.user.shell(call)
        assert status == 0, out
        return document(out, "retry", status=status)["data"]

    def ending(self, job_id):
        return wait_until(lambda: self.user.show(job_id)["job"]["ending"], 20, "the tree to be stuck")

    def close(self) -> None:
        for process in [*self.members, *(worker.pid for worker in self.workers)]:
            signal_quietly(process, signal.SIGKILL)
        for worker in self.workers:
            worker.communicate(timeout=20)
        wait_until(lambda: not processes_of(self.user.path, self.user.db), 20, "the end of the members")


@pytest.fixture
def rooted(person):
    if os.geteuid() != 0:
        pytest.skip("only root can give a job what makes it somebody else's")
    program = [*PREFIX, person.python, "-c", "import os; os.setresuid(0, 0, 0)"]
    try:
        done = subprocess.run(program, capture_output=True, cwd=person.path)
    except FileNotFoundError:
        pytest.skip("there is no setpriv command")
    if done.returncode:
        pytest.skip(f"cannot pass on a capability: {done.stderr.decode(errors='replace').strip()[-200:]}")
    queue = Rooted(person)
    yield queue
    queue.close()


# A command whose tree is ended by its worker, by the limit of its output, as soon as the test wants it: a
# timeout would have to leave the time to become root's.
LIMIT = ("--max-output", "50")
LOUD = f"{GO}; head -c 99 /dev/zero >&2; wait"


def one_at_a_time(user):
    """Whether short jobs that are all due now run one after another."""
    jobs = [user.add("--", "sleep", "0.2") for _ in range(3)]
    for one in jobs:
        user.wait_for(one, "done")
    times = [user.show(one)["attempts"][0] for one in jobs]
    return all(a["finished_at"] <= b["started_at"] + 0.0011 for a, b in zip(times, times[1:]))


def test_a_member_of_another_user_is_shown_holds_its_slot_and_the_worker_goes_on(rooted):
    user = rooted.user
    job = user.add(*LIMIT, "--max-retries", "0", "-c", rooted.script(LOUD))
    worker = rooted.work("-j", "2")
    pid = rooted.member(job)
    (user.path / "go").touch()
    ending = rooted.ending(job)
    assert (ending["pids"], ending["why"]) == ([pid], "not_permitted")
    shown = user.json("status")["running_jobs"]
    assert [(one["id"], one["ending"]) for one in shown] == [(job, ending)]
    assert alive(pid)

    # One slot is taken, the other goes on; the slots of the lane count it too.
    assert one_at_a_time(user)
    assert user.json("work", "--once", "--slots", "1") == {"claimed": False}
    assert told(user, job) == ["added", "claimed", "stuck"]  # once, however often it was looked at since
    assert user.show(job)["events"][-1]["detail"] == f"pids {pid}: not_permitted"
    assert user.show(job)["job"]["state"] == "running"

    os.kill(pid, signal.SIGKILL)
    user.wait_for(job, "dead")
    attempt = user.show(job)["attempts"][0]
    assert (attempt["state"], attempt["failure_reason"]) == ("failed", "output_limit")
    assert user.show(job)["job"]["ending"] is None
    assert worker.poll() is None


def test_what_the_end_of_a_command_leaves_for_ever_holds_its_result(rooted):
    user = rooted.user
    job = user.add("--max-retries", "0", "-c", rooted.script(GO))
    rooted.work()
    pid = rooted.member(job)
    (user.path / "go").touch()
    assert rooted.ending(job)["pids"] == [pid]
    after = user.add("--", "true")
    assert user.json("work", "--drain")["unsettled"] == [job]  # and runs what the stuck slot does not
    assert user.show(after)["job"]["state"] == "done"
    os.kill(pid, signal.SIGKILL)
    user.wait_for(job, "done")
    assert user.show(job)["events"][-1]["detail"] == "ended 1 left processes"


@pytest.mark.parametrize("owner", ["lives", "died", "stopped"])
def test_force_unverified_queues_again_what_cannot_be_ended_and_the_event_says_so(rooted, owner):
    user = rooted.user
    job = user.add(*LIMIT, "-c", rooted.script(LOUD))
    worker = rooted.work("-j", "2")
    pid = rooted.member(job)
    user.leader(job)
    if owner == "lives":
        (user.path / "go").touch()
        rooted.ending(job)
    else:
        stop(worker)
    if owner == "died":
        kill(worker)
        # Without --unverified, the request is followed through by whoever sees the member's end.
        assert user.json("retry", str(job), "--force")["state"] == "running"
        assert user.show(job)["attempts"][0]["state"] == "running"
    assert rooted.force(job) == {"job_id": job, "state": "queued"}
    assert details(user, job, "retried")[-1] == "forced, unverified"
    assert alive(pid)
    if owner == "stopped":
        worker.send_signal(signal.SIGCONT)
    if owner == "died":
        rooted.work()
    user.wait_for(job, "done")
    attempts = user.show(job)["attempts"]
    assert [(one["state"], one["error"]) for one in attempts] == [
        ("abandoned", attempts[0]["error"]),
        ("succeeded", None),
    ]
    assert alive(pid)
    if owner == "lives":
        assert one_at_a_time(user), "the old attempt holds its slot as long as it is there"

    os.kill(pid, signal.SIGKILL)  # what it left behind ends: nobody is confused by that
    after = user.add("--", "true")
    user.wait_for(after, "done")
    if owner != "died":
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    assert user.show(job)["job"]["state"] == "done"
    assert len(user.show(job)["attempts"]) == 2


# --- a capture file that is held elsewhere ----------------------------------------------------------------


@contextmanager
def unending(spool, *flags):
    """A job whose tree is never proven gone: its capture file, and the lock with it, comes here."""
    keeps_on = f'exec {sys.executable} -c "{GIVE_AWAY}; import time; time.sleep(300)"'
    with given_away(spool) as receive:
        script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {keeps_on}; {GO}"
        yield spool.add("--max-retries", "0", *flags, "-c", script), receive


@pytest.mark.parametrize(
    ("fate", "verb"),
    [
        ("alive", "cancel"),
        ("dead", "retry"),
        soak("alive", "retry"),
        soak("stopped", "retry"),
        soak("stopped", "cancel"),
        soak("dead", "cancel"),
    ],
)
def test_what_cannot_be_ended_is_answered_so_and_followed_through_later(spool, verb, fate):
    with unending(spool) as (job, receive):
        worker = owner(spool, "--grace", "0.2")
        with receive():
            pid = started(spool, job)
            if fate != "alive":
                stop(worker)
            if fate == "dead":
                kill(worker)
            began = time.monotonic()
            answer = finish(ask(spool, verb, job), check=0)
            assert time.monotonic() - began >= 2.2
            assert (answer.data["state"], answer.warnings) == ("running", ["KILL_ASYNC"])
            assert not alive(pid)
            assert requested(spool, job)[0] == REQUEST[verb]
            if fate == "stopped":
                worker.send_signal(signal.SIGCONT)
            if fate != "dead":
                wait_until(lambda: spool.show(job)["job"]["ending"], 20)
                assert told(spool, job) == ["added", "claimed", "stuck"]
        if fate == "dead":
            spool.start("work", "--queue", "elsewhere")
            spool.wait_for(job, AFTERWARDS[verb])
            settled(spool, verb, job, "reaped")
        else:
            assert worker.wait(20) == 0
            # To an owner that did not see the request, the leader ended by itself.
            settled(spool, verb, job, "stuck", *(["failed"] if fate == "stopped" else []))


@pytest.mark.parametrize("fate", ["alive", "dead", soak("stopped")])
def test_force_unverified_goes_on_although_the_old_tree_cannot_be_ended(spool, fate):
    with unending(spool) as (job, receive):
        flags = ("-j", "2", "--grace", "0.2", "--poll-interval", "0.1")
        worker = talking(spool, *flags)
        with receive():
            started(spool, job)
            if fate == "alive":
                assert finish(ask(spool, "retry", job), check=0).warnings == ["KILL_ASYNC"]
                wait_until(lambda: spool.show(job)["job"]["ending"], 20)
            else:
                stop(worker)
            if fate == "dead":
                kill(worker)
            answer = finish(ask(spool, "retry", job, "--unverified", limits=LATE), check=0)
            assert (answer.data["state"], answer.warnings) == ("queued", ["UNVERIFIABLE_OWNER"])
            assert details(spool, job, "retried") == ["forced, unverified"]
            if fate == "dead":
                worker = spool.start("work", *flags)
            else:
                worker.send_signal(signal.SIGCONT)
            started(spool, job, number=2)
            if fate == "alive":  # the stuck one keeps its slot
                waiting = spool.add("--", "true")
                spool.add("--queue", "other", "--", "true")
                spool.work("--queue", "other", check=0)
                assert spool.state(waiting) == "queued"
        (spool.path / "go").touch()
        spool.wait_for(job, "done")
        if fate == "alive":
            spool.wait_for(waiting, "done")
        if fate != "dead":
            wait_until(lambda: dropped(job) in lines_of(spool), 10)


def test_the_lock_of_a_worker_that_left_a_stuck_tree_behind_proves_its_death(spool):
    with given_away(spool) as receive:
        job = spool.add("--max-retries", "0", "--", sys.executable, "-c", GIVE_AWAY)
        worker = spool.start("work", "--grace", "0.2")
        with receive():
            wait_until(lambda: spool.show(job)["job"]["ending"], 20)
            assert spool.stop(worker) == 0
            assert spool.state(job) == "running"
            assert os.listdir(spool.db.parent / "workers") == ["1.lock"]
    spool.work()
    assert details(spool, job, "reaped") != []
    assert os.listdir(spool.db.parent / "workers") == []
