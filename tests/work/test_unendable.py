"""SPEC 5: what a worker may not end is shown as ending, holds its slot, and stops nothing else. Real members
of another user under a plain user's worker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support import alive, signal_quietly, wait_until

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a job what makes it somebody else's"),
]

# The worker is a plain user that may pass on the right to change the user: its job can become root's, and the
# worker has no right to signal it then.
CAPS = "+setuid,+setgid"
PREFIX = (
    "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", f"--inh-caps={CAPS}",
    f"--ambient-caps={CAPS}",
)  # fmt: skip
ROOTED = "import os, time; os.setresuid(0, 0, 0); print(os.getpid(), flush=True); time.sleep(600)"


class Rooted:
    """A queue of the plain user, and the members of its jobs that became root's."""

    def __init__(self, user) -> None:
        self.user = user
        self.workers: list[subprocess.Popen[bytes]] = []
        self.members: list[int] = []

    def add(self, *words):
        return self.user.data("add", *words)["job_id"]

    def work(self, *words):
        worker = self.user.start(
            "work", "--json", "--grace", "0.2", "--poll-interval", "0.1", *words, prefix=PREFIX
        )
        self.workers.append(worker)
        return worker

    def member(self, job_id, attempt_no=1):
        """The pid that the job's attempt printed, once it is root's."""
        out = self.user.path / f".spoolctl/output/{job_id}/{attempt_no}/stdout"
        pid = int(wait_until(lambda: out.exists() and out.read_text().strip(), 20))
        assert os.stat(f"/proc/{pid}").st_uid == 0
        self.members.append(pid)
        return pid

    def show(self, job_id):
        return self.user.data("show", str(job_id))

    def told(self, job_id):
        return [event["event"] for event in self.show(job_id)["events"]]

    def ending(self, job_id):
        return wait_until(lambda: self.show(job_id)["job"]["ending"], 20, "the tree to be stuck")

    def wait_for(self, job_id, state):
        wait_until(lambda: self.show(job_id)["job"]["state"] == state, 20, f"job {job_id} to be {state}")

    def close(self) -> None:
        for process in [*self.members, *(worker.pid for worker in self.workers)]:
            signal_quietly(process, signal.SIGKILL)
        for worker in self.workers:
            worker.communicate(timeout=20)
        for pid in self.members:
            wait_until(lambda pid=pid: not alive(pid), 20)


@pytest.fixture
def rooted(plain_user):
    program = [*PREFIX, plain_user.python, "-c", "import os; os.setresuid(0, 0, 0)"]
    try:
        done = subprocess.run(program, capture_output=True, cwd=plain_user.path)
    except FileNotFoundError:
        pytest.skip("there is no setpriv command")
    if done.returncode:
        pytest.skip(f"cannot pass on a capability: {done.stderr.decode(errors='replace').strip()[-200:]}")
    queue = Rooted(plain_user)
    yield queue
    queue.close()


def script(rooted, last="wait"):
    return f"[ $SPOOLCTL_ATTEMPT -gt 1 ] && exit 0; {rooted.user.python} -c '{ROOTED}' & {last}"


def one_at_a_time(rooted):
    """Whether short jobs that are all due now run one after another."""
    jobs = [rooted.add("--", "sleep", "0.2") for _ in range(3)]
    for one in jobs:
        rooted.wait_for(one, "done")
    times = [rooted.show(one)["attempts"][0] for one in jobs]
    return all(a["finished_at"] <= b["started_at"] + 0.0011 for a, b in zip(times, times[1:]))


def test_a_member_of_another_user_is_shown_holds_its_slot_and_the_worker_goes_on(rooted):
    job = rooted.add("--timeout", "0.5", "--max-retries", "0", "-c", script(rooted))
    worker = rooted.work("-j", "2")
    pid = rooted.member(job)
    ending = rooted.ending(job)
    assert (ending["pids"], ending["why"]) == ([pid], "not_permitted")
    shown = rooted.user.data("status")["running_jobs"]
    assert [(one["id"], one["ending"]) for one in shown] == [(job, ending)]
    assert alive(pid)

    # One slot is taken, the other goes on; the slots of the lane count it too.
    assert one_at_a_time(rooted)
    assert rooted.user.data("work", "--once", "--slots", "1") == {"claimed": False}
    assert rooted.told(job) == ["added", "claimed", "stuck"]  # once, however often it was looked at since
    assert rooted.show(job)["events"][-1]["detail"] == f"pids {pid}: not_permitted"
    assert rooted.show(job)["job"]["state"] == "running"

    os.kill(pid, signal.SIGKILL)
    rooted.wait_for(job, "dead")
    attempt = rooted.show(job)["attempts"][0]
    assert (attempt["state"], attempt["failure_reason"]) == ("timed_out", "timeout")
    assert rooted.show(job)["job"]["ending"] is None
    assert worker.poll() is None


def test_what_the_end_of_a_command_leaves_for_ever_holds_its_result(rooted):
    job = rooted.add("--max-retries", "0", "-c", script(rooted, "until [ -e go ]; do sleep 0.02; done"))
    rooted.work()
    pid = rooted.member(job)
    (rooted.user.path / "go").touch()
    assert rooted.ending(job)["pids"] == [pid]
    after = rooted.add("--", "true")
    assert rooted.user.data("work", "--drain")["unsettled"] == [job]  # and runs what the stuck slot does not
    assert rooted.show(after)["job"]["state"] == "done"
    os.kill(pid, signal.SIGKILL)
    rooted.wait_for(job, "done")
    assert rooted.show(job)["events"][-1]["detail"] == "ended 1 left processes"


@pytest.mark.parametrize("owner", ["lives", "died", "stopped"])
def test_force_unverified_queues_again_what_cannot_be_ended_and_the_event_says_so(rooted, owner):
    job = rooted.add("--timeout", "0.5" if owner == "lives" else "none", "-c", script(rooted))
    worker = rooted.work("-j", "2")
    pid = rooted.member(job)
    wait_until(lambda: rooted.show(job)["attempts"][0]["pid"], 20)
    if owner == "lives":
        rooted.ending(job)
    else:
        worker.send_signal(signal.SIGKILL if owner == "died" else signal.SIGSTOP)
        if owner == "died":
            worker.wait()
    if owner == "died":  # without it, the request is followed through by whoever sees the member's end
        assert rooted.user.data("retry", str(job), "--force")["state"] == "running"
        assert rooted.show(job)["attempts"][0]["state"] == "running"
    assert rooted.user.data("retry", str(job), "--force", "--unverified") == {
        "job_id": job,
        "state": "queued",
    }
    events = rooted.show(job)["events"]
    last = next(one for one in reversed(events) if one["event"] == "retried")
    assert last["detail"] == "forced, unverified"
    assert alive(pid)
    if owner == "stopped":
        worker.send_signal(signal.SIGCONT)
    if owner == "died":
        rooted.work()
    rooted.wait_for(job, "done")
    attempts = rooted.show(job)["attempts"]
    assert [(one["state"], one["error"]) for one in attempts] == [
        ("abandoned", attempts[0]["error"]),
        ("succeeded", None),
    ]
    assert alive(pid)
    if owner == "lives":
        assert one_at_a_time(rooted), "the old attempt holds its slot as long as it is there"

    os.kill(pid, signal.SIGKILL)  # what it left behind ends: nobody is confused by that
    after = rooted.add("--", "true")
    rooted.wait_for(after, "done")
    if owner != "died":
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    assert rooted.show(job)["job"]["state"] == "done"
    assert len(rooted.show(job)["attempts"]) == 2
