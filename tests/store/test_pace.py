"""Changing many jobs: in transactions that are short on any machine, between which others write."""

from __future__ import annotations

import sqlite3

import pytest

from spoolctl import hooks, paths
from spoolctl.store import checkpoint, pace
from spoolctl.store.open import open_writer


class Clock:
    """Time passes only by what is done."""

    def __init__(self):
        self.time = 1000.0
        self.slept = []

    def monotonic(self):
        return self.time

    now = monotonic

    def sleep(self, seconds):
        self.slept.append(seconds)


@pytest.fixture(autouse=True)
def _no_hooks_left():
    yield
    hooks.AT.clear()


@pytest.mark.parametrize(
    ("cost", "sizes"),
    [
        (0.00001, [50, 100, 200, 400, 500, 500, 250]),  # twice as many at most, and never more than 500
        (0.0005, [50, 20, 20, 20]),
        (0.1, [50, 10, 10, 10]),  # there is no good in fewer: then it is the commit that takes the time
    ],
)
def test_a_transaction_takes_as_many_jobs_as_fit_into_its_time(spool, monkeypatch, cost, sizes):
    spool.add()
    clock = Clock()
    monkeypatch.setattr(pace, "clock", clock)
    db = open_writer(paths.Spool(str(spool.db), "flag"))
    seen: list[list[int]] = []
    hooks.AT["begun"] = lambda: seen.append([])

    def change(conn, job_id, now):
        assert conn.in_transaction
        seen[-1].append(job_id)
        clock.time += cost

    ids = list(range(sum(sizes)))
    pace.Pace(db).each(ids, change)
    assert [len(part) for part in seen] == sizes
    assert [job_id for part in seen for job_id in part] == ids
    assert len(clock.slept) == len(sizes) - 1  # not before the first, nor after the last
    assert all(pause >= pace.GAP for pause in clock.slept)
    db.close()


def test_others_write_while_many_jobs_are_canceled_and_retried(spool):
    answer = spool.json("add", "--from", "-", "--queue", "b", stdin=b"true\n" * 300)
    ids = [f"{answer['first_id']}-{answer['last_id']}"]
    queued: list[int] = []

    def between():
        del hooks.AT["gate left"]  # the commit of what is added here comes to it too
        spool.add("--queue", "c", "--", "true")
        queued.append(spool.json("status")["queues"]["b"]["counts"]["queued"])
        hooks.AT["gate left"] = between

    hooks.AT["gate left"] = between
    answer = spool.json("cancel", "--queue", "b")
    assert (answer["matched"], answer["canceled"]) == (300, 300)
    assert len(queued) >= 3 and queued == sorted(set(queued), reverse=True) and queued[-1] == 0
    queued.clear()
    again = spool.json("retry", *ids)
    assert (again["matched"], again["retried"]) == (300, 300)
    assert len(queued) >= 3 and queued == sorted(set(queued)) and queued[-1] == 300
    assert again["job_ids"] == answer["job_ids"]


def test_a_checkpoint_that_cannot_be_made_refuses_nothing_that_was_changed(spool, monkeypatch):
    """Else a full disk would ask for the call once more, which would then find nothing to change."""
    spool.json("add", "--from", "-", stdin=b"true\n" * 120)
    tries: list[int] = []

    def full():
        tries.append(0)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(checkpoint.Checkpointer.__init__, "__defaults__", (1,))
    monkeypatch.setattr(checkpoint, "STEP", 1)
    hooks.AT["checkpoint: begun"] = full
    assert spool.json("cancel", "1-120")["canceled"] == 120
    assert spool.json("retry", "1-120")["retried"] == 120
    assert spool.json("cancel", "1-120")["canceled"] == 120
    assert spool.json("prune", "--older-than", "0", "--state", "canceled", "--yes")["deleted_jobs"] == 120
    assert tries
