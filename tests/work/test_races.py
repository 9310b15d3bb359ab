"""SPEC 1 (promises 2 and 3) and 6: many workers and callers at once, some of them killed, about slots,
keys and the dead. Real processes, real signals.
"""

from __future__ import annotations

import fcntl
import random
import sqlite3
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from looking import last, rows, started, told
from support import alive, finish, wait_until
from workers import GO, kill

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


SOON = 10  # seconds: 2 are promised, the rest is for a slow machine
# Every process of an attempt holds descriptor 9, and with it the lock of its job.
ALONE = 'exec 9>>"alone.$SPOOLCTL_JOB_ID"; flock -n 9 || { echo overlap >>log; exit 0; }; '

# And descriptor 8, the lock of one of two slots.
SLOT = (
    "exec 8>>slot.1; flock -n 8 || { exec 8>>slot.2; flock -n 8; } || { echo crowded >>log; exit 0; }; "
    'echo "start $SPOOLCTL_JOB_ID" >>log; '
)


def lines(spool):
    """Of the file `log`, to which the jobs append."""
    path = spool.path / "log"
    return path.read_text().splitlines() if path.exists() else []


def lives(spool, number):
    """Wait until so many workers have registered."""
    wait_until(lambda: len(spool.json("status", "--limit", "300")["workers"]) >= number, 30)


# --- slots ------------------------------------------------------------------------------------------------


def test_never_more_run_than_there_are_slots_although_workers_are_killed(spool):
    """QUALITY, case 21. A dead worker's jobs keep their slots until their trees are gone."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    pick = random.Random(seed)
    scripts = [
        f"{ALONE}{SLOT} {pick.choice(('', 'setsid sleep 300 &', '(trap : TERM; sleep 0.3; sleep 300) &'))} "
        f"sleep {pick.uniform(0, 0.3):.2f}"
        for _ in range(40)
    ]
    budget = ("--max-crashes", "none", "--backoff-base", "0.05", "--backoff-max", "0.1")
    spool.json("add", "--from", "-", *budget, stdin="\n".join(scripts).encode())

    def worker():
        grace = pick.choice(("0.1", "0.4"))
        return spool.start("work", "--slots", "2", "-j", str(pick.randint(1, 4)), "--grace", grace, "--json")

    workers = [worker() for _ in range(6)]
    for _ in range(12):
        time.sleep(pick.uniform(0.05, 0.4))  # a random moment
        busy = {row[0] for row in rows(spool, "SELECT worker_pid FROM attempts WHERE state = 'running'")}
        victims = [n for n, one in enumerate(workers) if one.pid in busy] or [pick.randrange(6)]
        victim = pick.choice(victims)
        kill(workers[victim])
        workers[victim] = worker()
    wait_until(lambda: spool.json("status")["counts"]["done"] == 40, 90)
    log = lines(spool)
    assert {line.split()[0] for line in log} == {"start"}
    assert len(set(log)) == 40
    crashes = rows(spool, "SELECT count(*) FROM job_events WHERE event = 'reaped'")[0][0]
    assert crashes > 0, "nobody was killed while something ran"
    assert rows(spool, "SELECT sum(crashes) FROM jobs") == [(crashes,)]


# --- keys -------------------------------------------------------------------------------------------------


def holders(spool):
    """The ledger's moments at which two jobs of one lane and key were active."""
    keys = dict(rows(spool, "SELECT id, key FROM jobs WHERE key IS NOT NULL"))
    active, doubled = {}, []
    for number, job_id, event in rows(spool, "SELECT id, job_id, event FROM job_events ORDER BY id"):
        held = active.setdefault(keys[job_id], set())
        if event in ("succeeded", "dead", "canceled"):
            held.discard(job_id)
        else:
            held.add(job_id)
        if len(held) > 1:
            doubled.append((number, sorted(held)))
    return doubled


def test_a_key_has_one_active_job_whatever_is_asked_of_it_at_once(spool):
    """Adds race with the end, the cancel and the retry of the key's holder."""
    for _ in range(2):
        spool.start("work", "--json", "-j", "2", "--grace", "0.2", "--poll-interval", "0.1")
    add = ("add", "--json", "--key", "k", "--max-retries", "0", "-c", ALONE + "sleep 0.1; exit $(($$ % 2))")
    calls = []
    for _ in range(8):
        for words in (
            add,
            ("retry", "--json", "key:k"),
            add,
            ("cancel", "--json", "key:k", "--running", "--yes"),
            add,
        ):
            calls.append(spool.start(*words))
        finish(calls[-1])
    answers = [finish(call) for call in calls]
    allowed = {None, "CONFLICT", "IDEMPOTENCY_CONFLICT", "SAFETY_BLOCK", "NOT_FOUND"}
    assert {answer.code for answer in answers} <= allowed
    added = [answer.data for answer in answers if answer.argv[0] == "add"]  # none is refused
    made = [one["job_id"] for one in added if not one["deduplicated"]]
    assert len(made) == len(set(made))
    assert sorted(made) == [row[0] for row in rows(spool, "SELECT id FROM jobs ORDER BY id")]
    assert {one["job_id"] for one in added} == set(made)
    assert len(made) > 1
    wait_until(lambda: not sum(spool.json("status")["counts"][s] for s in ("queued", "running")), 30)
    assert holders(spool) == []
    assert lines(spool) == []


def test_a_kept_key_makes_one_job_for_ever(spool):
    spool.start("work", "--json")
    add = ("add", "--json", "--key", "once", "--key-scope", "kept", "-c", "echo ran >>log")
    first = [finish(call, check=0).data for call in [spool.start(*add) for _ in range(12)]]
    spool.wait_for(1, "done")
    second = [finish(call, check=0).data for call in [spool.start(*add) for _ in range(4)]]
    assert [one["job_id"] for one in first + second] == [1] * 16
    assert [one["deduplicated"] for one in first].count(False) == 1
    assert all(one["deduplicated"] for one in second)
    assert lines(spool) == ["ran"]


# --- the dead ---------------------------------------------------------------------------------------------


def test_of_several_that_notice_a_death_one_brings_the_job_back(spool):
    others = [spool.start("work", "--json", "--queue", lane, "--poll-interval", "0.1") for lane in "abcde"]
    lives(spool, len(others))
    budget = ("--backoff-base", "0", "--max-crashes", "none")
    script = f'{ALONE} echo "$SPOOLCTL_JOB_ID $SPOOLCTL_ATTEMPT" >>log; [ $SPOOLCTL_ATTEMPT -gt 2 ] || {GO}'
    jobs = [spool.add(*budget, "-c", f"setsid sleep 300 & {script}") for _ in range(4)]
    for attempt_no in (1, 2):
        worker = spool.start("work", "--json", "-j", "4", "--grace", "0.5")
        wait_until(lambda n=attempt_no: {f"{job} {n}" for job in jobs} <= set(lines(spool)), 30)
        kill(worker)
        for job in jobs:
            spool.wait_for(job, "queued")
    spool.work("-j", "4", check=0)
    for job in jobs:
        shown = spool.show(job)
        assert told(spool, job) == ["added", *["claimed", "reaped"] * 2, "claimed", "succeeded"]
        assert (shown["job"]["crashes"], shown["job"]["attempts"]) == (2, 2)
    assert sorted(lines(spool)) == sorted(f"{job} {n}" for job in jobs for n in (1, 2, 3))
    assert [one.poll() for one in others] == [None] * 5


def crowd(spool, number):
    """So many live workers, each with a running job: their rows, and their locks held by this process."""
    held = ExitStack()
    spool.json("add", "--from", "-", "--queue", "crowd", stdin=b"true\n" * number)
    folder = spool.db.parent / "workers"
    folder.mkdir(mode=0o700, exist_ok=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with closing(sqlite3.connect(spool.db, timeout=20)) as db, db:
        for (job,) in db.execute("SELECT id FROM jobs WHERE queue = 'crowd'").fetchall():
            path = folder / "new.lock"
            lock = held.enter_context(path.open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            info = path.stat()
            instance = db.execute(
                "INSERT INTO workers (label, pid, boot_id, lock_dev, lock_ino, lane, kind, concurrency,"
                " grace, started_at) VALUES ('crowd', 1, ?, ?, ?, 'crowd', 'command', 1, 5, 0)",
                (boot, info.st_dev, info.st_ino),
            ).lastrowid
            path.rename(folder / f"{instance}.lock")
            db.execute(
                "INSERT INTO attempts (job_id, attempt_no, state, worker, worker_label, token, started_at)"
                " VALUES (?, 1, 'running', ?, 'crowd', 'x', 0)",
                (job, instance),
            )
            db.execute(
                "UPDATE jobs SET state = 'running', owner = ?, attempt_no = 1 WHERE id = ?", (instance, job)
            )
    return held


def test_a_dead_one_is_noticed_behind_many_that_live(spool):
    with crowd(spool, 300):
        job = spool.add("--backoff-base", "1h", "--backoff-max", "1h", "-c", f"{GO}")
        worker = spool.start("work", "--json")
        started(spool, job)
        spool.start("work", "--json", "--queue", "other", "--poll-interval", "30")
        lives(spool, 300)
        wait_until(lambda: rows(spool, "SELECT count(*) FROM workers") == [(302,)], 20)
        kill(worker)
        began = time.monotonic()
        wait_until(lambda: told(spool, job)[-1] == "reaped", 20)
        assert time.monotonic() - began < SOON
        status = spool.json("status", "--limit", "1")
        assert (status["counts"]["running"], status["orphaned"]) == (300, 0)


@pytest.mark.parametrize("other", ["idle", "busy", "of another lane"])
def test_a_death_is_noticed_in_two_seconds_and_the_job_runs_again(spool, other):
    """QUALITY, recovery: SIGKILL of the worker, to the event; then to the start, the old tree gone first."""
    budget = ("--backoff-base", "0.1", "--timeout", "none")
    script = (
        f"{ALONE} echo $SPOOLCTL_ATTEMPT >>log; [ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ setsid sleep 300 & {GO}; }}"
    )
    job = spool.add(*budget, "-c", script)
    worker = spool.start("work", "--json")
    started(spool, job)
    wait_until(lambda: lines(spool) == ["1"], 20)
    if other == "busy":
        spool.add(*budget, "--priority", "1", "-c", "until [ -e free ]; do sleep 0.02; done")
    lane = ("--queue", "other") if other == "of another lane" else ()
    spool.start("work", "--json", *lane)
    lives(spool, 2)
    if other == "busy":
        started(spool, job + 1)
    old = last(spool, job)["pid"]
    died = time.time()
    kill(worker)
    wait_until(lambda: "reaped" in told(spool, job), 30)
    assert not alive(old)
    (spool.path / "free").touch()
    if lane:
        spool.start("work", "--json")
    spool.wait_for(job, "done")
    at = {event["event"]: event["at"] - died for event in spool.show(job)["events"]}
    print(f"{other}: noticed after {at['reaped']:.2f} s, started after {at['claimed']:.2f} s")
    assert at["reaped"] < SOON
    assert told(spool, job) == ["added", "claimed", "reaped", "claimed", "succeeded"]
    assert lines(spool) == ["1", "2"]
