"""The schema keeps the invariants by itself: CHECKs refuse impossible rows, triggers keep the counts."""

from __future__ import annotations

import importlib.util
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

from spoolctl import paths
from spoolctl.contract import states
from spoolctl.store import db as store_db

_spec = importlib.util.spec_from_file_location("make_databases", ROOT / "tests" / "databases" / "make.py")
assert _spec
assert _spec.loader
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

NOW = 1_700_000_000.5


def empty():
    return store_db.stand_in(paths.Spool("/nowhere/queue.db", "flag")).conn


@pytest.fixture
def conn():
    made = empty()
    yield made
    made.close()


def add(conn, **fields):
    return make.insert(conn, "jobs", make.JOB | fields)


RUNNING = {"state": "running", "owner": 1, "attempt_no": 1}
DONE = {"state": "done", "finished_at": NOW}

GOOD = {
    "queued": {},
    "running": RUNNING,
    "done": DONE,
    "dead": {"state": "dead", "finished_at": NOW},
    "canceled": {"state": "canceled", "finished_at": NOW},
    "a payload": {"kind": "payload", "argv": None, "payload": "{}"},
    "no limits": {"timeout": None, "max_crashes": None, "max_output": None},
    "a request": {**RUNNING, "request": "cancel", "requested_at": NOW},
    "a request that was seen": {**RUNNING, "request": "requeue", "requested_at": NOW, "request_seen_at": NOW},
    "crashes": {"attempts": 3, "crashes": 3},
    "a path of bytes": {"cwd": b"/\xff"},
}

BAD = {
    "an unknown kind": {"kind": "other"},
    "an unknown state": {"state": "scheduled"},
    "no state": {"state": None},
    "running without an owner": {"state": "running"},
    "queued with an owner": {"owner": 1},
    "done with an owner": {**DONE, "owner": 1},
    "done without an end": {"state": "done"},
    "dead without an end": {"state": "dead"},
    "canceled without an end": {"state": "canceled"},
    "queued with an end": {"finished_at": NOW},
    "running with an end": {**RUNNING, "finished_at": NOW},
    "a command without words": {"argv": None},
    "a command with a payload": {"payload": "{}"},
    "a payload with words": {"kind": "payload", "payload": "{}"},
    "a payload without one": {"kind": "payload", "argv": None},
    "a request of a queued job": {"request": "cancel", "requested_at": NOW},
    "a request of a finished job": {**DONE, "request": "cancel", "requested_at": NOW},
    "a request without its time": {**RUNNING, "request": "cancel"},
    "a time without its request": {**RUNNING, "requested_at": NOW},
    "an unknown request": {**RUNNING, "request": "stop", "requested_at": NOW},
    "an unknown reason": {"last_failure_reason": "bad luck"},
    "negative attempts": {"attempts": -1},
    "negative crashes": {"crashes": -1},
    "more crashes than attempts": {"attempts": 1, "crashes": 2},
    "negative retries": {"max_retries": -1},
    "negative crash budget": {"max_crashes": -1},
    "no retries": {"max_retries": None},
    "half kept children": {"keep_children": 2},
    "no lane": {"queue": None},
    "no priority": {"priority": None},
    "no due time": {"next_run_at": None},
    "no birth": {"created_at": None},
}


@pytest.mark.parametrize("name", GOOD)
def test_a_possible_job_is_stored(conn, name):
    assert add(conn, **GOOD[name]) == 1


@pytest.mark.parametrize("name", BAD)
def test_an_impossible_job_is_refused(conn, name):
    with pytest.raises(sqlite3.IntegrityError):
        add(conn, **BAD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_job_cannot_become_impossible(conn, name):
    job_id = add(conn)
    changes = dict(BAD[name].items())
    with pytest.raises(sqlite3.IntegrityError):
        conn.execute(
            f"UPDATE jobs SET {', '.join(f'{key} = :{key}' for key in changes)} WHERE id = {job_id}", changes
        )


@pytest.mark.parametrize("table", ["jobs", "attempts", "job_events", "workers", "job_tags", "counts"])
def test_no_column_holds_what_its_type_does_not_say(conn, table):
    make.fill(conn)
    for _, name, kind, *_ in conn.execute(f"PRAGMA table_info({table})").fetchall():
        damage = [b"\xff\x00"] if kind == "TEXT" else ["abc", b"\xff\x00"]
        if name == "cwd":
            damage = [5]  # it may be text, or bytes that are not UTF-8
        for value in damage:
            with pytest.raises(sqlite3.IntegrityError, match="CHECK|datatype mismatch"):
                conn.execute(f"UPDATE {table} SET {name} = :value", {"value": value})


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "running", "finished_at": NOW}, {"state": "succeeded", "finished_at": None},
        {"state": "queued"}, {"attempt_no": 0}, {"failure_reason": "bad luck"}, {"token": None},
        {"worker": None}, {"started_at": None},
    ],
    ids=str,
)  # fmt: skip
def test_an_impossible_attempt_is_refused(conn, fields):
    with pytest.raises(sqlite3.IntegrityError):
        make.insert(conn, "attempts", make.ATTEMPT | {"job_id": 1} | fields)
    make.insert(conn, "attempts", make.ATTEMPT | {"job_id": 1})
    with pytest.raises(sqlite3.IntegrityError):
        make.insert(conn, "attempts", make.ATTEMPT | {"job_id": 1})


def test_every_word_of_the_contract_is_accepted_and_no_other(conn):
    for state in states.ATTEMPT_STATES:
        row = {"job_id": 1 + states.ATTEMPT_STATES.index(state), "state": state}
        make.insert(
            conn, "attempts", make.ATTEMPT | row | {"finished_at": None if state == "running" else NOW}
        )
    for reason in states.REASONS:
        add(conn, last_failure_reason=reason)
    for event in states.EVENTS:
        make.insert(conn, "job_events", {"job_id": 1, "at": NOW, "event": event})
    with pytest.raises(sqlite3.IntegrityError):
        make.insert(conn, "job_events", {"job_id": 1, "at": NOW, "event": "exploded"})


@pytest.mark.parametrize("table", ["jobs", "attempts", "job_events", "workers", "job_tags", "counts"])
def test_a_row_is_checked_without_a_table_made_for_it(conn, table):
    """SQLite makes one for a list behind IN of more than two, for every row anew."""
    conn.execute("DROP INDEX jobs_ended")  # whose condition is such a list
    columns = [name for _, name, *_ in conn.execute(f"PRAGMA table_info({table})").fetchall()]
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    program = conn.execute(f"EXPLAIN {insert}", [None] * len(columns)).fetchall()
    assert "OpenEphemeral" not in {step[1] for step in program}


def test_a_key_has_one_active_job_in_its_lane(conn):
    add(conn, key="k")
    for fields in ({}, RUNNING):
        with pytest.raises(sqlite3.IntegrityError):
            add(conn, key="k", **fields)
    add(conn, key="k", queue="other")
    add(conn, key="K")
    for _ in range(2):
        add(conn, key="k", **DONE)
        add(conn, key=None)
    done = conn.execute("SELECT max(id) FROM jobs WHERE key = 'k' AND state = 'done'").fetchone()[0]
    with pytest.raises(sqlite3.IntegrityError):
        conn.execute("UPDATE jobs SET state = 'queued', finished_at = NULL WHERE id = ?", (done,))


def test_a_tag_key_stands_once_on_a_job(conn):
    make.insert(conn, "job_tags", {"job_id": 1, "key": "a", "value": "1"})
    with pytest.raises(sqlite3.IntegrityError):
        make.insert(conn, "job_tags", {"job_id": 1, "key": "a", "value": "2"})


# --- counts -----------------------------------------------------------------------------------------------

COLUMNS_OF = {
    "queued": {"state": "queued", "owner": None, "finished_at": None},
    "running": {"state": "running", "owner": 1, "finished_at": None},
    "done": {"state": "done", "owner": None, "finished_at": NOW},
    "dead": {"state": "dead", "owner": None, "finished_at": NOW},
    "canceled": {"state": "canceled", "owner": None, "finished_at": NOW},
}
CHANGE = "UPDATE jobs SET state = :state, owner = :owner, finished_at = :finished_at WHERE"

LANES = st.sampled_from(["a", "b", "c"])
STATES = st.sampled_from(list(COLUMNS_OF))
KINDS = st.sampled_from(list(states.KINDS))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), LANES, KINDS, STATES),
        st.tuples(st.just("move"), st.integers(1, 12), STATES),
        st.tuples(st.just("move all"), STATES, STATES),
        st.tuples(st.just("touch"), st.integers(1, 12)),
        st.tuples(st.just("delete"), st.integers(1, 12)),
        st.tuples(st.just("delete all"), STATES),
        st.tuples(st.just("take back"), LANES, KINDS),
        st.tuples(st.just("copy"), LANES),
    ),
    max_size=40,
)


def perform(conn, operation):
    match operation:
        case ("add", lane, kind, state):
            other = {"kind": "payload", "argv": None, "payload": "1"} if kind == "payload" else {}
            add(conn, queue=lane, **other, **COLUMNS_OF[state])
        case ("move", job_id, state):
            conn.execute(f"{CHANGE} id = :id", {**COLUMNS_OF[state], "id": job_id})
        case ("move all", before, after):
            conn.execute(f"{CHANGE} state = :before", {**COLUMNS_OF[after], "before": before})
        case ("touch", job_id):
            conn.execute("UPDATE jobs SET state = state, note = 'x' WHERE id = ?", (job_id,))
        case ("delete", job_id):
            conn.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        case ("delete all", state):
            conn.execute("DELETE FROM jobs WHERE state = ?", (state,))
        case ("take back", lane, kind):
            conn.execute("BEGIN")
            perform(conn, ("add", lane, kind, "queued"))
            conn.execute("ROLLBACK")
        case ("copy", lane):
            names = ", ".join(name for name in make.JOB if name != "queue")
            conn.execute(
                f"INSERT INTO jobs (queue, {names}) SELECT :lane, {names} FROM jobs WHERE id <= 3",
                {"lane": lane},
            )


def counted(conn):
    return {(lane, kind, state): n for lane, kind, state, n in conn.execute("SELECT * FROM counts") if n}


def full_count(conn):
    rows = conn.execute("SELECT queue, kind, state, count(*) FROM jobs GROUP BY queue, kind, state")
    return {(lane, kind, state): n for lane, kind, state, n in rows}


@settings(max_examples=150, deadline=None)
@given(OPERATIONS)
def test_the_counts_are_a_full_count_whatever_happens(operations):
    conn = empty()
    try:
        for operation in operations:
            perform(conn, operation)
        assert counted(conn) == full_count(conn)
        assert all(n >= 0 for (n,) in conn.execute("SELECT n FROM counts"))
    finally:
        conn.close()
