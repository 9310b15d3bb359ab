"""SPEC 5: nobody but a member of the attempt is ever signalled: not who was given a member's number since,
and not ourselves. Numbers come again on purpose, in a small pid namespace.
"""

from __future__ import annotations

import sys

import pytest
from support import alive, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


def last(spool, job_id):
    return spool.show(job_id)["attempts"][-1]


def told(spool, job_id):
    return [event["event"] for event in spool.show(job_id)["events"]]


def begun(spool, job_id):
    """(pid of the worker, pid of the leader), once both are written down."""
    attempt = wait_until(lambda: (all_ := spool.show(job_id)["attempts"]) and all_[-1]["pid"] and all_[-1])
    return attempt["worker_pid"], attempt["pid"]


ACTORS = {
    "work": ("work", "--json", "--drain"),
    "cancel": ("cancel", "1", "--running", "--yes", "--json"),
    "retry": ("retry", "1", "--force", "--json"),
}
AFTER = {"work": "done", "cancel": "canceled", "retry": "queued"}


@pytest.mark.parametrize("how", ["plain", "leader", "session", "group"])
@pytest.mark.parametrize("actor", list(ACTORS))
def test_who_was_given_the_number_of_a_dead_leader_is_left_alone(spool, namespace, actor, how):
    job = spool.add("--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300")
    namespace.start("work", "--json")
    worker, leader = begun(spool, job)
    namespace.end(worker)
    namespace.end(leader)
    stranger = namespace.take(leader, how)
    if how == "session":
        assert namespace.stat(stranger)[3] == str(leader), "it is not in the session of that number"
    if how == "group":
        assert namespace.stat(stranger)[2] == str(leader), "it is not in the group of that number"
    answer = namespace.cli(*ACTORS[actor], check=0)
    assert answer.warnings == []
    assert namespace.alive(stranger)
    assert spool.state(job) == AFTER[actor]
    assert spool.show(job)["attempts"][0]["state"] == "abandoned"


@pytest.mark.parametrize("lock", ["its lock", "no lock"])
@pytest.mark.parametrize("how", ["plain", "leader"])
def test_who_was_given_the_number_of_a_dead_worker_is_left_alone(spool, namespace, how, lock):
    """QUALITY, case 8: the worker's death shows by its lock, and without one by its start time."""
    job = spool.add("--backoff-base", "0", "-c", "[ $SPOOLCTL_ATTEMPT -gt 1 ] || exec sleep 300")
    namespace.start("work", "--json")
    worker, leader = begun(spool, job)
    namespace.end(worker)
    stranger = namespace.take(worker, how)
    assert stranger == worker
    if lock == "no lock":
        (spool.db.parent / "workers" / "1.lock").unlink()
    assert namespace.cli("status", "--json").data["workers"][0]["alive"] is False
    namespace.cli("work", "--json", "--drain", check=0)
    assert (namespace.alive(stranger), namespace.alive(leader)) == (True, False)
    assert (spool.state(job), told(spool, job)[2]) == ("done", "reaped")


def test_what_its_session_alone_shows_is_ended_although_the_leader_is_gone(spool):
    """The other side: no token, no lock, no parent of ours, but the very session begun for the job."""
    left = "env -i sleep 300 >/dev/null 2>&1 & echo $! >left; until [ -e go ]; do sleep 0.02; done"
    job = spool.add("--backoff-base", "0", "-c", f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {left}; }}")
    worker = spool.start("work", "--json")
    _, leader = begun(spool, job)
    pid = int(wait_until(lambda: (path := spool.path / "left").exists() and path.read_text().strip(), 20))
    worker.kill()
    worker.wait()
    (spool.path / "go").touch()
    wait_until(lambda: not alive(leader), 20)
    assert alive(pid)
    spool.work(check=0)
    assert (alive(pid), spool.state(job)) == (False, "done")
