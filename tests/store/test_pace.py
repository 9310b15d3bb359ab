"""Changing many jobs: in transactions that are short on any machine, between which others write."""

from __future__ import annotations

import pytest

from spoolctl import hooks, paths
from spoolctl.store import pace
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
    spool.json("add", "--from", "-", "--queue", "a", "--max-retries", "0", stdin=b"false\n" * 300)
    spool.json("add", "--from", "-", "--queue", "b", stdin=b"true\n" * 300)
    added: list[int] = []

    def between():
        if len(added) < 3:
            added.append(0)  # its own commit comes here too
            added[-1] = spool.json("add", "--queue", "c", "--", "true")["job_id"]

    hooks.AT["gate left"] = between
    answer = spool.json("cancel", "--queue", "b")
    assert (answer["matched"], answer["canceled"], len(added)) == (300, 300, 3)
    assert spool.json("status")["queues"]["c"]["counts"]["queued"] == 3
    added.clear()
    ids = [f"{answer['job_ids'][0]}-{answer['job_ids'][-1]}"]
    again = spool.json("retry", *ids)
    assert (again["matched"], again["retried"], len(added)) == (300, 300, 3)
    assert again["job_ids"] == answer["job_ids"]
