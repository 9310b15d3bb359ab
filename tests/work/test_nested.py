"""SPEC 5: workers inside jobs. One that belongs to the tree of a dead worker's attempt never ends that tree,
and with it itself: it says so, and leaves the job to others.
"""

from __future__ import annotations

import sys

import pytest
from looking import ended, log_of, started, told
from support import alive, document, processes_of, wait_until
from workers import ALONE, GO, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")

PYTHON = sys.executable
INNER = f"{PYTHON} -m spoolctl work --worker-id inner --poll-interval 0.1"
# The inner worker as the leader itself, as its child, and where only its token shows whose it is.
WAYS = {
    "leader": f"exec {INNER} 2>said",
    "child": f"{INNER} 2>said & wait",
    "away": f"setsid {INNER} </dev/null >/dev/null 2>said & {GO}",
}
LEFT = "job 1 attempt 1 of a dead worker is left to others: this worker is part of it"


def worker_row(spool, label):
    return next((one for one in spool.json("status")["workers"] if one["worker_id"] == label), None)


def first_only(script):
    return f"[ $SPOOLCTL_ATTEMPT -gt 1 ] && exit 0; {script}"


def nested(spool, way, *flags):
    """(job, the outer worker, pid of the inner one), both at work."""
    job = spool.add("--backoff-base", "0", *flags, "-c", first_only(WAYS[way]))
    outer = spool.start("work", "--worker-id", "outer", "--max-jobs", "1")
    inner = wait_until(lambda: worker_row(spool, "inner"), 20)["pid"]
    started(spool, job)
    return job, outer, inner


def said(spool):
    return (spool.path / "said").read_text()


@pytest.mark.parametrize("way", list(WAYS))
def test_one_inside_the_tree_of_a_dead_worker_leaves_it_to_others_and_says_so(spool, way):
    job, outer, inner = nested(spool, way)
    kill(outer)
    if way == "away":
        (spool.path / "go").touch()  # the leader ends, and with it all that a session could show
    wait_until(lambda: LEFT in said(spool), 20)
    before = said(spool).count(LEFT)
    # It goes on with what is not its own, and looks at dead owners meanwhile.
    for _ in range(3):
        other = spool.add("-c", "sleep 0.4")
        spool.wait_for(other, "done")
        assert spool.show(other)["attempts"][0]["worker_id"] == "inner"
    assert alive(inner)
    assert (told(spool, job), spool.state(job)) == (["added", "claimed"], "running")
    assert (said(spool).count(LEFT), before) == (1, 1)
    assert spool.json("status")["running_jobs"][0]["ending"] is None

    third = spool.start("work", "--worker-id", "third", "--poll-interval", "0.1")
    spool.wait_for(job, "done")
    assert not alive(inner)
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    wait_until(lambda: [w["worker_id"] for w in spool.json("status")["workers"]] == ["third"], 20)
    assert third.poll() is None


@pytest.mark.parametrize("how", ["killed", "its job is forced back"])
def test_a_job_of_an_inner_worker_comes_back_once_when_the_outer_one_goes(spool, how):
    job, outer, inner = nested(spool, "child")
    work = spool.add("--backoff-base", "0", "-c", ALONE + "[ $SPOOLCTL_ATTEMPT -gt 1 ] || sleep 300")
    wait_until(lambda: log_of(spool), 20)
    assert spool.show(work)["attempts"][0]["worker_id"] == "inner"
    if how == "killed":
        kill(outer)
    else:
        spool.json("retry", str(job), "--force")
    spool.start("work", "--worker-id", "third", "--poll-interval", "0.1")
    for one in (job, work):
        spool.wait_for(one, "done")
    assert not alive(inner)
    assert log_of(spool) == ["start", "start"]
    reason = "worker_crash" if how == "killed" else "canceled"
    assert ended(spool.show(job)["attempts"][0])[:2] == ("abandoned", reason)
    assert spool.show(work)["attempts"][0]["state"] == "abandoned"
    wait_until(lambda: [w["worker_id"] for w in spool.json("status")["workers"]] == ["third"], 20)


def test_a_drain_inside_the_tree_of_a_dead_worker_does_not_wait_for_itself(spool):
    inner = f"{PYTHON} -m spoolctl work --worker-id inner --drain --json"
    script = f"setsid sh -c '{inner} 2>said >answer; echo over >over' & {GO}"
    job = spool.add("--backoff-base", "1h", "--backoff-max", "1h", "-c", script)
    outer = spool.start("work", "--worker-id", "outer", "--max-jobs", "1")
    hold = spool.add("--queue", "default", "-c", "touch up; until [ -e end ]; do sleep 0.02; done")
    wait_until((spool.path / "up").exists, 20)
    kill(outer)
    (spool.path / "go").touch()
    (spool.path / "end").touch()
    spool.wait_for(hold, "done")
    wait_until((spool.path / "over").exists, 20)
    assert document((spool.path / "answer").read_bytes(), "work")["data"]["unsettled"] == [job]
    assert spool.state(job) == "running"
    # The leader sees the file in its own time: nobody ended it.
    wait_until(lambda: not processes_of(spool.path, spool.db), 20, "the end of the tree nobody ended")


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_one_who_asks_from_inside_the_tree_of_a_dead_worker_does_not_end_itself(spool, verb):
    flags = "--running --yes" if verb == "cancel" else "--force"
    ask = f"{PYTHON} -m spoolctl {verb} 1 {flags} --json >answer; touch over"
    job = spool.add("-c", first_only(f"{GO}; {ask}; sleep 300"))
    outer = spool.start("work", "--grace", "0.3")
    started(spool, job)
    kill(outer)
    (spool.path / "go").touch()
    wait_until((spool.path / "over").exists, 20)
    answer = document((spool.path / "answer").read_bytes(), verb, status=0)
    assert (answer["data"]["state"], answer["warnings"][0]["code"]) == ("running", "KILL_ASYNC")
    assert told(spool, job) == ["added", "claimed"]
    spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(job, "canceled" if verb == "cancel" else "done")
    events = [one for one in told(spool, job) if one != "stuck"]  # on a slow machine, with that grace
    assert events[2:4] == ["reaped", "canceled" if verb == "cancel" else "retried"]
