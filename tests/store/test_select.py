"""Which jobs a call means: references, and filters that must be exact and go by a short index."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from spoolctl import paths
from spoolctl.contract.states import TERMINAL
from spoolctl.errors import SpoolctlError
from spoolctl.store import filter as filters
from spoolctl.store import jobs, select
from spoolctl.store import open as opening
from spoolctl.store.filter import Filter, matching

STATES = ("queued", "running", *TERMINAL)
ROW = {
    "kind": "command", "argv": '["true"]', "payload": None, "cwd": "/", "env": None, "captured_env": None,
    "timeout": None, "max_retries": 0, "max_crashes": 0, "backoff_base": 0, "backoff_factor": 1,
    "backoff_max": 0, "backoff_jitter": 0, "max_output": None, "keep_children": 0, "note": None,
    "asked": None,
}  # fmt: skip
END = "UPDATE jobs SET state = :state, finished_at = :at, owner = :owner WHERE id = :id"


@pytest.fixture
def db(tmp_path: Path):
    found = opening.open_writer(paths.Spool(str(tmp_path / "queue.db"), "flag"), create=True)
    yield found
    found.close()


def insert(db, count, seed=1):
    """Jobs of every kind that a filter can tell apart; returns what is known of them by id."""
    draw = random.Random(seed)
    known = {}
    with db.write() as conn:
        for i in range(count):
            row = {
                "queue": draw.choice("abc"),
                "priority": draw.randint(-2, 2),
                "created_at": 1000.0 + i + draw.choice((0, -50)),  # a clock may step back
                "next_run_at": 1000.0,
                "key": f"k{i % 5}",
            }
            state = draw.choice(STATES)
            if state in ("queued", "running"):
                row["key"] = f"k{i}"
            tags = {key: draw.choice("xy") for key in ("t", "u", "rare") if draw.random() < 0.4}
            job_id = jobs.insert(conn, ROW | row, tags)
            ended = 2000.0 + draw.randint(0, 100) if state in TERMINAL else None
            conn.execute(
                END, {"id": job_id, "state": state, "at": ended, "owner": 1 if state == "running" else None}
            )
            known[job_id] = row | {"state": state, "tags": tags, "finished_at": ended}
        for job_id in draw.sample(sorted(known), count // 10):  # holes, as prune leaves them
            conn.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
            conn.execute("DELETE FROM job_tags WHERE job_id = ?", (job_id,))
            del known[job_id]
    return known


def fulfils(job_id, job, wanted):
    """The same question, asked of the model."""
    tags = job["tags"]
    return (
        wanted.queue in (None, job["queue"])
        and (not wanted.states or job["state"] in wanted.states)
        and all(key in tags and value in (None, tags[key]) for key, value in wanted.tags)
        and wanted.key in (None, job["key"])
        and (wanted.priority_min is None or job["priority"] >= wanted.priority_min)
        and (wanted.since is None or job["created_at"] >= wanted.since)
        and (wanted.until is None or job["created_at"] <= wanted.until)
        and (wanted.before is None or job_id < wanted.before)
        and (wanted.after is None or job_id > wanted.after)
        and (
            wanted.ended_before is None
            or (job["finished_at"] is not None and job["finished_at"] < wanted.ended_before)
        )
    )


def any_filter(draw):
    def maybe(value):
        return value if draw.random() < 0.3 else None

    tags = [(key, draw.choice("xy") if draw.random() < 0.6 else None) for key in ("t", "u", "rare")]
    return Filter(
        queue=maybe(draw.choice("abcz")),
        states=maybe(draw.sample(STATES, draw.randint(1, 3))),
        tags=draw.sample(tags, draw.choice((0, 0, 0, 1, 2, 3))),
        key=maybe(f"k{draw.randint(0, 5)}"),
        priority_min=maybe(draw.randint(-3, 3)),
        since=maybe(1000.0 + draw.randint(-60, 320)),
        until=maybe(1000.0 + draw.randint(-60, 320)),
        before=maybe(draw.randint(1, 320)),
        after=maybe(draw.randint(0, 320)),
        ended_before=maybe(2000.0 + draw.randint(0, 101)),
    )


@pytest.mark.parametrize("probe", [filters.PROBE, 5], ids=["counted", "guessed"])
def test_every_filter_gives_what_a_look_at_every_job_gives(db, probe, monkeypatch):
    monkeypatch.setattr(filters, "PROBE", probe)
    known = insert(db, 300)
    draw = random.Random(2)
    for _ in range(1500):
        wanted = any_filter(draw)
        expected = [job_id for job_id in sorted(known) if fulfils(job_id, known[job_id], wanted)]
        limit = draw.choice((None, 1, 3, 10, 1000))
        assert matching(db, wanted, limit) == expected[:limit], vars(wanted)
        assert matching(db, wanted, limit, newest_first=True) == expected[::-1][:limit], vars(wanted)


FLAT = {
    "no filter": (Filter(), "SEARCH j USING INTEGER PRIMARY KEY"),
    "state": (Filter(states=["dead"]), "jobs_ended"),
    "states": (Filter(states=["queued", "running", "done"]), "jobs_(queued|running|ended)"),
    "queue": (Filter(queue="a"), "jobs_(queued|running|ended)"),
    "queue and state": (Filter(queue="a", states=["queued"]), "jobs_queued"),
    "tag": (Filter(tags=[("t", "x")]), "tags_value"),
    "tag key": (Filter(tags=[("t", None)]), "tags_key"),
    "key": (Filter(key="k1"), "jobs_key"),
}


@pytest.mark.parametrize(("wanted", "index"), FLAT.values(), ids=FLAT)
def test_a_flat_filter_seeks_in_an_index_and_never_sorts(db, wanted, index):
    insert(db, 50)
    wanted.before = 40
    statements = []
    db.conn.set_trace_callback(statements.append)
    matching(db, wanted, 5, newest_first=True)
    db.conn.set_trace_callback(None)
    plans = [
        [str(row[3]) for row in db.all(f"EXPLAIN QUERY PLAN {statement}")]
        for statement in statements
        if statement.lstrip().startswith("SELECT") and "FROM counts" not in statement
    ]
    assert plans
    for plan in plans:
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN") for step in plan), plan
        assert re.search(index, plan[0]), plan


def test_references_give_distinct_ids_in_the_order_given(db):
    known = insert(db, 60)
    ids = sorted(known)
    by_key = max(job_id for job_id in ids if known[job_id]["key"] == "k1")
    in_lane = max(job_id for job_id in ids if known[job_id]["key"] == "k1" and known[job_id]["queue"] == "b")
    last, first = ids[-1], ids[0]
    refs = [("id", last), ("range", (first, ids[4])), ("id", ids[2]), ("key", "k1"), ("id", last)]
    assert select.named(db, refs) == list(dict.fromkeys([last, *ids[:5], by_key]))
    assert select.named(db, [("key", "k1")], "b") == [in_lane]
    assert select.named(db, [("range", (1, 2**63 - 1))]) == ids
    assert select.one(db, ("id", first)) == first


def test_all_that_mean_no_job_are_named_together(db):
    ids = sorted(insert(db, 5))
    refs = [
        ("id", 900),
        ("id", ids[0]),
        ("key", "no such"),
        ("range", (500, 600)),
        ("id", 900),
        ("id", 2**63 - 1),
    ]
    with pytest.raises(SpoolctlError) as caught:
        select.named(db, refs, "a")
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.detail == {"missing": [900, "key:no such", "500-600", 2**63 - 1]}
    assert "'no such' in lane a" in caught.value.message


def test_one_plain_id_or_key_gives_the_single_form():
    assert select.single([("id", 1)]) and select.single([("key", "k")])
    assert select.single([("id", 1), ("id", 1)]), "duplicates count once"
    assert not select.single([("id", 1), ("id", 2)])
    assert not select.single([("range", (1, 1))])
    assert not select.single([]), "a selector"


def test_ids_and_a_lane_exclude_each_other_but_a_key_takes_one():
    select.refuse_mixture("cancel", [("key", "k")], "lane")
    select.refuse_mixture("cancel", [], "lane")
    select.refuse_mixture("cancel", [("id", 1)], None)
    for refs in ([("id", 1)], [("id", 1), ("range", (2, 3))]):
        with pytest.raises(SpoolctlError, match="ids and --queue exclude each other"):
            select.refuse_mixture("cancel", refs, "lane")
