"""The walk over a lane's priorities finds what a look at every row would, in one statement however many
there are."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from spoolctl import paths
from spoolctl.store import claim, counts, workers
from spoolctl.store.open import open_writer

ROW = dict.fromkeys(workers.COLUMNS) | {"instance": 1, "label": "w", "pid": 1}


def opened(spool):
    return open_writer(paths.Spool(str(spool.db), "flag"))


def add(spool, jobs):
    """Jobs of (priority, seconds from now), each in lane `a`."""
    lines = [json.dumps({"argv": ["true"], "queue": "a", "priority": p, "after": after}) for p, after in jobs]
    spool.json("add", "--from", "-", stdin="\n".join(lines).encode())


@pytest.mark.parametrize("seed", range(4))
def test_look_claim_and_the_number_of_scheduled_are_those_of_a_look_at_every_row(spool, seed):
    chance = random.Random(seed)
    priorities = [chance.randint(-(2**31), 2**31 - 1) for _ in range(chance.choice([3, 250]))] + [-(2**31)]
    add(spool, [(chance.choice(priorities), chance.randint(0, 100)) for _ in range(400)])
    db = opened(spool)
    rows = db.all("SELECT priority, next_run_at, id FROM jobs")
    first = min(at for _, at, _ in rows)
    for now in (first - 1, first, first + 3, first + 50, first + 99.5, first + 101):
        due = sorted((-p, at, job_id) for p, at, job_id in rows if at <= now)
        ready, when = claim.look(db, "a", "command", now)
        assert ready == bool(due)
        if not due:
            assert when == first
        assert counts.scheduled(db, "a", "command", len(rows), now) == len(rows) - len(due)
        for most in (1, 7, 1000):
            with pytest.raises(ZeroDivisionError), db.write() as conn:  # rolled back
                taken = claim.claim(conn, db, "a", "command", most, None, ROW, now, 1.0)
                assert [row["id"] for row in taken] == [job_id for _, _, job_id in due[:most]]
                raise ZeroDivisionError
    assert claim.look(db, "b", "command", first) == (False, None)
    db.close()


def test_a_thousand_priorities_of_delayed_jobs_are_one_statement(spool):
    add(spool, [(n, 3600) for n in range(1000)])
    spool.add("--queue", "a", "--priority", "-7", "--", "true")
    db = opened(spool)
    asked: Counter[str] = Counter()
    db.conn.set_trace_callback(lambda sql: asked.update([sql]))
    assert claim.look(db, "a", "command", 9e9)[0]
    assert sum(asked.values()) == 1  # the highest is due
    now = db.one("SELECT max(next_run_at) FROM jobs WHERE priority = -7")[0]
    asked.clear()
    assert claim.look(db, "a", "command", now) == (True, now)
    assert not db.conn.in_transaction
    assert counts.scheduled(db, "a", "command", 1001, now) == 1000
    assert sum(asked.values()) <= 6
    asked.clear()
    with db.write() as conn:
        assert len(claim.claim(conn, db, "a", "command", 5, None, ROW, now, 1.0)) == 1
    assert sum(asked.values()) < 20
    db.close()


def test_a_priority_that_no_flag_takes_is_walked_like_any_other(spool):
    """Somebody wrote it into the file. What a look calls ready and no claim takes, a worker would ask for
    without rest."""
    add(spool, [(0, 3600), (0, 0), (0, 0)])
    db = opened(spool)
    for job_id, priority in ((1, 2**62), (2, 2**40)):
        with db.write() as conn:
            conn.execute("UPDATE jobs SET priority = ? WHERE id = ?", (priority, job_id))
    now = db.one("SELECT max(next_run_at) FROM jobs WHERE id > 1")[0]
    assert claim.look(db, "a", "command", now)[0]
    assert counts.scheduled(db, "a", "command", 3, now) == 1
    with db.write() as conn:
        taken = claim.claim(conn, db, "a", "command", 9, None, ROW, now, 1.0)
    assert [row["id"] for row in taken] == [2, 3]
    db.close()


def test_a_walk_that_is_left_early_reads_no_longer(spool):
    """Else it would keep the log from starting anew."""
    add(spool, [(2, 3600), (1, 0), (0, 0)])
    db = opened(spool)
    now = db.one("SELECT next_run_at FROM jobs WHERE priority = 1")[0]
    assert claim.look(db, "a", "command", now) == (True, now)
    spool.add("--", "true")
    assert db.one("PRAGMA wal_checkpoint(TRUNCATE)") == (0, 0, 0)
    db.close()
