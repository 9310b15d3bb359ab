"""Every operation from every state: what it answers, and what the job is afterwards (SPEC 3 and 4)."""

from __future__ import annotations

import shlex

import pytest
from support import finish, wait_until

from spoolctl.contract.states import TRANSITIONS

pytestmark = pytest.mark.usefixtures("patient")

KEY = ("--key", "k")
STATES = ("queued", "delayed", "backoff", "running", "done", "dead", "canceled")

# How a job comes into a state: its command, and what else is asked for at `add`.
MADE = {
    "queued": ("true",),
    "delayed": ("--after", "1h", "--", "true"),
    "backoff": ("--backoff-base", "1h", "--backoff-max", "1h", "-c", "exit 3"),
    "running": ("--", "sleep", "100"),
    "done": ("true",),
    "dead": ("--max-retries", "0", "-c", "exit 3"),
    "canceled": ("true",),
}

OPERATIONS = {
    "cancel": ("cancel", "1"),
    "cancel --running --yes": ("cancel", "1", "--running", "--yes"),
    "retry": ("retry", "1"),
    "retry --now": ("retry", "1", "--now"),
    "retry --force": ("retry", "1", "--force"),
    "prune": ("prune", "--older-than", "0", "--state", "done,dead,canceled", "--yes"),
    "add": ("add", *KEY),
    "add, another command": ("add", *KEY, "--priority", "9"),
    "add, kept": ("add", *KEY, "--key-scope", "kept", "--priority", "9"),
}

SAME, GONE, CONFLICT, BLOCKED = "unchanged", "gone", "CONFLICT", "SAFETY_BLOCK"
OTHER = "IDEMPOTENCY_CONFLICT"

# operation -> (answer, state afterwards) from each of STATES. The answer is an error's code, or None.
# `unchanged`: nothing about the job changed, no event was written.
TABLE = {
    "cancel": [
        (None, "canceled"), (None, "canceled"), (None, "canceled"), (BLOCKED, SAME), (CONFLICT, SAME),
        (CONFLICT, SAME), (CONFLICT, SAME),
    ],
    "cancel --running --yes": [
        (None, "canceled"), (None, "canceled"), (None, "canceled"), (None, "canceled"), (CONFLICT, SAME),
        (CONFLICT, SAME), (CONFLICT, SAME),
    ],
    "retry": [
        (CONFLICT, SAME), (CONFLICT, SAME), (CONFLICT, SAME), (BLOCKED, SAME), (CONFLICT, SAME),
        (None, "queued"), (None, "queued"),
    ],
    "retry --now": [
        (CONFLICT, SAME), (None, "queued"), (None, "queued"), (BLOCKED, SAME), (CONFLICT, SAME),
        (None, "queued"), (None, "queued"),
    ],
    "retry --force": [
        (CONFLICT, SAME), (CONFLICT, SAME), (CONFLICT, SAME), (None, "queued"), (CONFLICT, SAME),
        (None, "queued"), (None, "queued"),
    ],
    "prune": [
        (None, SAME), (None, SAME), (None, SAME), (None, SAME), (None, GONE), (None, GONE), (None, GONE),
    ],
    "add": [
        (None, SAME), (None, SAME), (None, SAME), (None, SAME), (None, "new"), (None, "new"), (None, "new"),
    ],
    "add, another command": [
        (OTHER, SAME), (OTHER, SAME), (OTHER, SAME), (OTHER, SAME), (None, "new"), (None, "new"),
        (None, "new"),
    ],
    "add, kept": [(None, SAME)] * 7,
}  # fmt: skip

EVENTS = {
    "queued": ["added"],
    "delayed": ["added"],
    "backoff": ["added", "claimed", "failed"],
    "running": ["added", "claimed"],
    "done": ["added", "claimed", "succeeded"],
    "dead": ["added", "claimed", "failed", "dead"],
    "canceled": ["added", "canceled"],
}

CASES = [(operation, state) for operation in OPERATIONS for state in STATES]


def bring(spool, state):
    """Job 1, in a state."""
    worker = None
    assert spool.add(*KEY, *MADE[state]) == 1
    if state in ("backoff", "done", "dead"):
        spool.work("--once", check=0)
    elif state == "canceled":
        spool.run("cancel", "1", check=0)
    elif state == "running":
        # One attempt, so that what is queued again stays visible as queued.
        worker = spool.start("work", "--json", "--max-jobs", "1", "--grace", "0.5")
        wait_until(lambda: [a for a in spool.show(1)["attempts"] if a["pid"]], message="the command to run")
    shown = spool.show(1)
    assert [event["event"] for event in shown["events"]] == EVENTS[state]
    return shown, worker


def perform(spool, operation, state):
    words = list(OPERATIONS[operation])
    if words[0] == "add":
        words += MADE[state]
    return spool.run(words[0], "--json", *words[1:])


@pytest.mark.parametrize(("operation", "state"), CASES, ids=[f"{o} from {s}" for o, s in CASES])
def test_every_operation_from_every_state(spool, operation, state):
    before, worker = bring(spool, state)
    code, after = TABLE[operation][STATES.index(state)]
    answer = perform(spool, operation, state)
    assert answer.code == code, answer
    if after == GONE:
        assert spool.run("show", "--json", "1", check=1).code == "NOT_FOUND"
        return
    now = spool.show(1)
    new_events = [event["event"] for event in now["events"][len(before["events"]) :]]
    if after in (SAME, "new"):
        assert moved(before) == moved(now)
        assert new_events == []
        if operation.startswith("add") and code is None:
            assert (answer.data["job_id"], answer.data["deduplicated"]) == (
                1 + (after == "new"),
                after == SAME,
            )
            assert "IDEMPOTENCY_METADATA_DIFFERS" not in answer.warnings
    else:
        assert now["job"]["state"] == answer.data["state"] == after
        if now["job"]["state"] != before["job"]["state"]:
            assert after in TRANSITIONS[before["job"]["state"]]
        assert new_events == ["retried" if after == "queued" else "canceled"]
        check_changed(now, before, operation, state)
    if code == CONFLICT or (code == OTHER and state != "running"):
        check_refusal(spool, answer, state)
    if worker is not None and after != SAME:
        assert finish(worker, check=0).exit == 0


def moved(shown):
    """What `show` says, but for the moments that pass in a running job."""
    return shown["job"] | {"heartbeat_at": None}, shown["attempts"], shown["events"]


def check_changed(now, before, operation, state):
    """A job that was queued again or canceled."""
    job, old = now["job"], before["job"]
    event = now["events"][-1]
    kept = (
        "argv",
        "priority",
        "queue",
        "idempotency_key",
        "tags",
        "note",
        "created_at",
        "cwd",
        "max_retries",
    )
    assert {name: job[name] for name in kept} == {name: old[name] for name in kept}
    if job["state"] == "canceled":
        assert job["finished_at"] == event["at"]
        assert event["detail"] == ("forced (was running)" if state == "running" else None)
        assert job["cancel_requested_at"] is None
    else:
        assert job["finished_at"] is None
        assert job["next_run_at"] == event["at"]
        assert event["detail"] == ("forced" if state == "running" else None)
        fresh = operation != "retry --now" or state in ("dead", "canceled")
        if fresh:
            assert (job["attempts"], job["crashes"]) == (0, 0)
            lasts = ("last_exit_code", "last_signal", "last_error", "last_failure_reason")
            assert [job[name] for name in lasts] == [None] * 4
        else:  # only hurried: its budget and its story stay
            lasts = ("attempts", "last_exit_code", "last_error", "last_failure_reason")
            assert [job[name] for name in lasts] == [old[name] for name in lasts]
    assert [a["attempt_no"] for a in now["attempts"]] == [a["attempt_no"] for a in before["attempts"]]
    if state == "running":
        attempt = now["attempts"][-1]
        ended = ("abandoned", "force-retried") if job["state"] == "queued" else ("canceled", "canceled")
        assert (attempt["state"], attempt["error"]) == ended
        assert attempt["failure_reason"] == "canceled"


def check_refusal(spool, answer, state):
    """The facts of a refusal, and a way out that can be typed."""
    error = answer.error
    shown = "queued" if state in ("delayed", "backoff") else state
    if error["code"] == "CONFLICT":
        assert error["detail"] == {"job_id": 1, "state": shown}
    words = shlex.split(error["remediation"])
    assert words[0] == "spoolctl"
    followed = spool.run(words[1], "--json", *words[2:])
    if words[:2] == ["spoolctl", "retry"] and state == "queued":
        assert followed.code == "CONFLICT"  # it is due already: then `show` is named
        assert followed.error["remediation"] == "spoolctl show 1"
    else:
        assert followed.exit == 0, followed


def test_the_table_is_whole():
    assert set(TABLE) == set(OPERATIONS)
    assert all(len(row) == len(STATES) for row in TABLE.values())
    assert set(MADE) == set(EVENTS) == set(STATES)
