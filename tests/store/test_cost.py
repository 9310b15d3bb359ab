"""QUALITY, cases 27 and 38: what an idle worker's looks cost beside many delayed jobs, and what the write
ahead log comes to with readers attached; and what `add --from` costs while it holds the lock. Counted in
steps of SQLite's machine and in bytes, not in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import time

from support import Spool, checked_line, finish, wait_until

from spoolctl import paths
from spoolctl.store import bulk, claim, jobs, owners
from spoolctl.store.open import open_writer
from spoolctl.work import house, leaving, turn
from spoolctl.work.shift import Options, Shift

FEW, MANY = 50, 20_000


def delayed(spool, count):
    """So many delayed jobs over five priorities, some of them tagged and keyed, and two in backoff."""
    lines = [
        json.dumps({"argv": ["true"], "priority": n % 5, "after": "1h", "tags": {"t": str(n % 7)}})
        for n in range(count)
    ]
    spool.json("add", "--from", "-", stdin="\n".join(lines).encode())
    for _ in range(2):
        spool.add("--queue", "failing", "--backoff-base", "1h", "--backoff-max", "1h", "--", "false")
    spool.work("--queue", "failing", "--max-jobs", "2")


class Steps:
    """How many steps SQLite takes for something."""

    def __init__(self, conn):
        self.conn = conn

    def of(self, call):
        count = 0

        def step():
            nonlocal count
            count += 1

        self.conn.set_progress_handler(step, 1)
        try:
            call()
        finally:
            self.conn.set_progress_handler(None, 1)
        return count


def costs(folder, count):
    """The steps of each look of a worker that finds nothing, and of one claim, beside so many jobs."""
    folder.mkdir()
    spool = Spool(folder)
    delayed(spool, count)
    db = open_writer(paths.Spool(str(spool.db), "flag"))
    steps = Steps(db.conn)
    shift = Shift(db, Options(poll_interval=1.0, idle_timeout=0.0), {}, lambda line: True)
    try:
        house.begin(shift)
        found = {"first look": steps.of(lambda: turn.look(shift))}
        assert (shift.ready, shift.next_due is not None) == (False, True)
        statements: list[str] = []
        db.conn.set_trace_callback(statements.append)
        found["look again"] = steps.of(lambda: turn.look(shift))
        db.conn.set_trace_callback(None)
        assert statements == ["PRAGMA data_version"]  # nothing changed: nothing is asked
        shift.house_at = shift.rows_at = 0.0
        found["house"] = steps.of(lambda: house.look_after(shift))
        found["leave"] = steps.of(lambda: leaving.finished(shift))
        shift.options.drain = True
        found["settled"] = steps.of(lambda: leaving.finished(shift))
        assert shift.drained
        found["slots"] = steps.of(lambda: claim.running_in_lane(db, "default"))
        found["backoff"] = steps.of(lambda: owners.in_backoff(db, "default", "command"))
        due = spool.add("--priority", "2", "--", "true")
        shift.options.drain = False

        def take():
            with db.write(full=False) as conn:
                taken = claim.claim(conn, db, "default", "command", 1, None, shift.me.row, time.time(), 1.0)
            assert [row["id"] for row in taken] == [due]

        found["claim"] = steps.of(take)
    finally:
        shift.me.leave()
        shift.stops.restore()
        db.close()
    return found


def test_an_idle_workers_looks_cost_the_same_beside_many_delayed_jobs(tmp_path):
    few, many = costs(tmp_path / "few", FEW), costs(tmp_path / "many", MANY)
    assert {name: many[name] <= few[name] * 1.3 + 20 for name in few} == dict.fromkeys(few, True), (few, many)
    assert max(many.values()) < 5_000, many  # five priorities: some look-ups each


def locked_steps(db, count, first=0, **differs):
    """(SQLite's steps under the lock for each of so many jobs added at once, how many of them were new)."""
    stage = bulk.Stage(db)
    sample = dict.fromkeys(jobs.ADDED) | SAMPLE
    shape = stage.shape("active", tuple(sample[column] for column in bulk.SHARED))
    numbers = range(first, first + count)
    rows = [sample | {name: f"{text}{n}" for name, text in differs.items() if name != "tag"} for n in numbers]
    lines = [(n, n, shape, *(row[column] for column in bulk.OWN)) for n, row in enumerate(rows, 1)]
    stage.put(lines, [(n, "t", "v") for n in range(1, count + 1)] if "tag" in differs else [])
    assert stage.repeat() is None
    stage.seal()
    added = 0

    def add():
        nonlocal added
        with db.write() as conn:
            assert bulk.find_held(conn, stage) is None
            added = bulk.add_staged(conn, stage)[1]

    steps = Steps(db.conn).of(add) / count
    for kind, name in db.all("SELECT type, name FROM sqlite_temp_master WHERE type IN ('view', 'table')"):
        db.execute(f"DROP {kind} {name}")
    return steps, added


SAMPLE = {
    "kind": "command", "queue": "default", "priority": 0, "next_run_at": 1e9, "argv": '["true"]', "cwd": "/",
    "captured_env": "{}", "max_retries": 3, "backoff_base": 2, "backoff_factor": 2, "backoff_max": 60,
    "backoff_jitter": 0, "keep_children": 0, "created_at": 1e9,
}  # fmt: skip


def test_a_job_of_many_costs_few_steps_under_the_lock_however_many_there_are(spool):
    """A third of them are the CHECKs. With their words in lists behind IN they would be 75 more."""
    spool.add("true")
    db = open_writer(paths.Spool(str(spool.db), "flag"))
    for differs, most in (({}, 410), ({"key": "k"}, 435), ({"tag": "t"}, 490)):
        few, _ = locked_steps(db, 100, first=0, **differs)
        many, added = locked_steps(db, 5_000, first=100, **differs)
        assert added == 5_000
        assert many < min(few * 1.1, most), (differs, few, many)
    # What is there already is looked up, compared, and nothing else.
    many, added = locked_steps(db, 5_000, first=50, key="k")
    assert (added, many < 150) == (0, True), many
    db.close()


def wal_of(spool):
    try:
        return os.stat(f"{spool.db}-wal").st_size
    except FileNotFoundError:
        return 0


def test_the_log_stays_small_while_20_000_events_are_written_beside_a_follower_and_a_waiter(spool):
    """By calls and by a busy worker; a second one is idle. Each reader that sleeps lets a checkpoint pass."""
    last = spool.add("--queue", "last", "--", "true")
    with open(spool.path / "seen", "wb") as seen, open(os.devnull, "wb") as nothing:
        follower = spool.start("events", "--follow", "--json", "--since-id", "0", stdout=seen)
        waiter = spool.start("wait", "--json", str(last))
        busy = spool.start("work", stderr=nothing)
        idle = spool.start("work", "--queue", "idle", stderr=nothing)
    most = 0
    spool.json("add", "--from", "-", stdin=b"true\n" * 600)
    for _ in range(91):
        spool.json("add", "--from", "-", "--queue", "never", stdin=b"true\n" * 200)
        most = max(most, wal_of(spool))
    while spool.json("status", "--limit", "0")["counts"]["done"] < 600:
        most = max(most, wal_of(spool))
        time.sleep(0.05)
    # These commits write some 80 MB to it. A worker's checkpoint is due at 4 MiB, a call's at 16.
    # One that stands still inside a read keeps it from being used again meanwhile: hence the room.
    assert 4 * 1024**2 < most < 40 * 1024**2
    spool.work("--queue", "last")
    assert finish(waiter, check=0).data["all_succeeded"] is True
    seen = spool.path / "seen"
    wait_until(lambda: seen.read_bytes().count(b"\n") >= 20_003, 30, "every event at the follower")
    words = ["events", "--follow", "--json"]
    ids = [checked_line(line, words)["id"] for line in seen.read_text().splitlines()]
    assert ids == list(range(1, 20_004))

    def small():
        if wal_of(spool) < 5 * 1024**2:
            return True
        # Only what makes it larger again is a reason to try again.
        spool.json("add", "--from", "-", "--queue", "never", stdin=b"true\n" * 200)
        return False

    wait_until(small, 30, "a worker's checkpoint")
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(20) == 0
    assert busy.poll() is idle.poll() is None
