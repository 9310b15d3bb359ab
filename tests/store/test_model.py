"""Random operations on the store, by several connections to one file, against the model of the SPEC."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from model import ACTIVE, TERMINAL, Model

from spoolctl import clock, paths
from spoolctl.errors import SpoolctlError
from spoolctl.store import claim, control, prune, settle, workers
from spoolctl.store.open import open_writer
from spoolctl.verbs import _job, add, cancel, retry

LANES = ("default", "other")
OWNERS = ("ada", "bob", "ada")  # a label need not be unique
COST = {None: settle.FREE, "failure": settle.FAILURE, "crash": settle.CRASH}

# How an attempt may end: (state, event, what it spends, reason, error, exit code, signal).
ENDS = {
    "succeeded": ("succeeded", "succeeded", None, None, None, 0, None),
    "failed": ("failed", "failed", "failure", "process_exit", "exit 3", 3, None),
    "killed": ("failed", "failed", "failure", "process_exit", "signal SIGKILL", -9, "SIGKILL"),
    "timed out": ("timed_out", "timed_out", "failure", "timeout", "timed out after 5s", -15, "SIGTERM"),
    "not started": ("failed", "failed", "failure", "spawn_failed", "spawn failed: [Errno 2]", None, None),
    "too much": ("failed", "failed", "failure", "output_limit", "output limit of 9 bytes", -15, "SIGTERM"),
    "no room": ("failed", "failed", "failure", "disk_full", "disk full", 1, None),
    "interrupted": ("abandoned", "interrupted", None, "worker_shutdown", "worker stopped", -15, "SIGTERM"),
    "reaped": ("abandoned", "reaped", "crash", "worker_crash", "worker died", None, None),
    # What ends an attempt because of a request has no event of its own.
    "canceled": ("canceled", None, None, "canceled", "canceled", -15, "SIGTERM"),
    "force-retried": ("abandoned", None, None, "canceled", "force-retried", -15, "SIGTERM"),
}
END = st.sampled_from([*ENDS, "succeeded", "interrupted", "reaped", "reaped"])
BY_REQUEST = ("canceled", "force-retried")

PICK = st.sampled_from(range(60))  # of what there is at that moment
FEW = st.sampled_from(range(3))  # so that several things happen to one attempt
RARELY = st.sampled_from([False, False, False, False, True])
LANE = st.sampled_from(["default", "default", "other"])
CONNECTION = st.sampled_from(range(3))
LATER = st.sampled_from([0.0, 0.001, 2.0, 2.0, 4.0, 30.0, 60.0, -0.5])  # seconds
# Results, then the time, the lane, the owner, and how many jobs it wants within how many slots.
TURN = st.tuples(
    st.lists(st.tuples(PICK, RARELY, END, st.booleans()), max_size=3),
    LATER,
    LANE,
    st.sampled_from(range(3)),
    st.sampled_from([1, 2, 4, 4]),
    st.sampled_from([None, None, None, 1, 2, 4]),
)
ASKED = st.fixed_dictionaries(
    {
        "lane": LANE,
        "priority": st.sampled_from([0, 0, 0, -1, 5]),
        "key": st.sampled_from([None, None, None, "k", "l"]),
        "delay": st.sampled_from([0.0, 0.0, 0.0, 1.5, 60.0]),
        "command": st.sampled_from(["true", "true", "false"]),
        "max_retries": st.sampled_from([0, 1, 3]),
        "max_crashes": st.sampled_from([None, 0, 1]),
        "backoff": st.sampled_from([(2.0, 2.0, 60.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0, 10.0, 30.0, 0.5)]),
    }
)


class Machine(RuleBasedStateMachine):
    """Each rule does the same to the store and to the model, and compares what both answer."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        place = paths.Spool(os.path.realpath(self.folder.name) + "/queue.db", "flag")
        self.dbs = [open_writer(place, create=True) for _ in range(3)]
        self.model = Model()
        self.attempts: list[tuple[int, int]] = []  # every attempt there ever was
        self.real_now = clock.now
        clock.now = lambda: self.model.now

    def teardown(self) -> None:
        clock.now = self.real_now
        for db in self.dbs:
            db.close()
        self.folder.cleanup()

    @initialize(start=st.sampled_from([1e9, 1.7e9 + 0.123]), asked=st.lists(ASKED, min_size=4, max_size=8))
    def begin(self, start, asked):
        self.model.now = start
        self.owners = []
        for label in OWNERS:
            row = dict.fromkeys(workers.COLUMNS[1:], 0) | {
                "label": label,
                "lane": "default",
                "kind": "command",
            }
            with self.dbs[0].write() as conn:
                row["instance"] = workers.register(conn, row)
            self.owners.append(row)
        for one in asked:
            self.add_one(self.dbs[0], one, False)

    def job(self, pick):
        """One of the jobs there are, None when there is none."""
        jobs = list(self.model.jobs.values())
        return jobs[pick % len(jobs)] if jobs else None

    def attempt(self, pick, late):
        """(job's id, attempt number): one that runs; when late, one before it, or any there ever was."""
        running = [(job.id, job.attempt_no) for job in self.model.jobs.values() if job.state == "running"]
        if late:
            running = [(job_id, number - 1) for job_id, number in running if number > 1 and pick % 4]
        among = running or self.attempts
        return among[pick % len(among)] if among else (1, 1)

    # --- rules ---

    @rule(asked=st.lists(ASKED, min_size=1, max_size=3), kept=RARELY, c=CONNECTION)
    def add(self, asked, kept, c):
        for one in asked:
            self.add_one(self.dbs[c], one, kept)

    def add_one(self, db, asked, kept):
        base, factor, most, jitter = asked["backoff"]
        row = {
            "kind": "command", "queue": asked["lane"], "priority": asked["priority"],
            "next_run_at": round(self.model.now + asked["delay"], 3), "argv": json.dumps([asked["command"]]),
            "payload": None, "cwd": "/", "env": None, "captured_env": None, "timeout": 300,
            "max_retries": asked["max_retries"], "max_crashes": asked["max_crashes"], "backoff_base": base,
            "backoff_factor": factor, "backoff_max": most, "backoff_jitter": jitter, "max_output": None,
            "keep_children": 0, "key": asked["key"], "note": None, "asked": None,
            "created_at": self.model.now,
        }  # fmt: skip
        expected, job_id = self.model.add(asked, kept)
        try:
            there, found = add._store(db, _job.Submission(row, {}, "kept" if kept else "active"))
        except SpoolctlError as error:
            assert (error.code, error.detail["job_id"]) == ("IDEMPOTENCY_CONFLICT", job_id)
            assert expected == "conflict"
        else:
            assert ("added" if there is None else "deduplicated", found) == (expected, job_id)

    @rule(
        what=st.lists(
            st.tuples(st.sampled_from(["cancel", "retry", "retry", "retry --now"]), PICK),
            min_size=1,
            max_size=4,
        ),
        c=CONNECTION,
    )
    def call(self, what, c):
        for verb, pick in what:
            job = self.job(pick)
            if job is None:
                continue
            if verb == "cancel":
                found = cancel._at_once(self.dbs[c], [job.id])
                assert found == ([job.id] if self.model.cancel(job) else [])
                continue
            done, left = retry._try(self.dbs[c], [job.id], verb == "retry --now")
            expected = self.model.retry(job, verb == "retry --now")
            assert done == ([job.id] if expected == "queued" else [])
            if not done:
                refused = left[job.id]
                assert (refused.code if refused else "running") == expected

    @rule(
        what=st.lists(
            st.sampled_from(["cancel", "requeue", "stamp", "take back"]), min_size=1, max_size=5
        ),
        pick=PICK, late=RARELY, c=CONNECTION,
    )  # fmt: skip
    def ask(self, what, pick, late, c):
        """Requests to an attempt that runs, or to one that runs no more."""
        job_id, number = self.attempt(pick, late)
        for verb in what:
            with self.dbs[c].write() as conn:
                if verb == "stamp":
                    control.stamp(conn, job_id, number, self.model.now)
                    self.model.stamp(job_id, number)
                elif verb == "take back":
                    for request in ("cancel", "requeue"):
                        found = control.take_back(conn, job_id, number, request)
                        assert found == self.model.take_back(job_id, number, request)
                else:
                    found = control.request(conn, job_id, number, verb, f"forced {pick}", self.model.now)
                    assert found == self.model.ask(job_id, number, verb, f"forced {pick}")

    ask_2 = ask

    @rule(pick=FEW, late=RARELY, why=st.sampled_from(["child", "not_permitted"]), c=CONNECTION)
    def note(self, pick, late, why, c):
        """The record of a child, or of a tree that cannot be ended."""
        job_id, number = self.attempt(pick, late)
        if why == "child":
            child = {"job_id": job_id, "attempt_no": number, "pid": 2 + pick, "pid_start": 1, "session": 1}
            with self.dbs[c].write(full=False) as conn:
                lost = claim.record_children(conn, [child])
            assert lost == ([] if self.model.record_child(job_id, number, 2 + pick) else [child])
        else:
            for pids in ([5, pick], [5]):
                self.model.now = round(self.model.now + 1.0, 3)
                with self.dbs[c].write(full=False) as conn:
                    settle.mark_stuck(conn, job_id, number, pids, why, "w", self.model.now)
                self.model.mark_stuck(job_id, number, pids, why, "w")

    @rule(
        states=st.sampled_from([["done"], ["dead", "canceled"], list(TERMINAL)]), c=CONNECTION,
        age=st.sampled_from([0, 1, 60]), keep=st.sampled_from([0, 0, 2]),
        lane=st.sampled_from([None, *LANES]),
    )  # fmt: skip
    def prune(self, states, c, age, keep, lane):
        before = self.model.now - age
        gone = self.model.prune(states, before, lane, keep)
        db = self.dbs[c]
        tally = prune.delete(db, prune.selection(db, states, before + 0.0005, lane, (), keep))
        assert tally.jobs == len(gone)

    @rule(turns=st.lists(TURN, min_size=1, max_size=3), c=CONNECTION)
    def work(self, turns, c):
        for results, *wanted in turns:
            self.turn(self.dbs[c], results, *wanted)

    work_2, work_3 = work, work  # most of what happens

    @rule(seconds=st.sampled_from([-7200.0, -3600.0, 3600.0, 7200.0]))
    def clock_is_set(self, seconds):
        self.model.now += seconds

    def turn(self, db, results, later, lane, who, most, slots):
        """A worker's turn: results, late ones too, and the next claims in one transaction."""
        self.model.now = round(self.model.now + later, 3)
        owner = self.owners[who]
        with db.write() as conn:
            for pick, late, how, earlier in results:
                self.settle(conn, *self.attempt(pick, late), how, earlier)
            taken = claim.claim(conn, db, lane, "command", most, slots, owner, self.model.now, 1.0)
        expected = self.model.claim(lane, owner["instance"], owner["label"], most, slots)
        assert [(row["id"], row["attempt_no"]) for row in taken] == expected
        self.attempts += expected
        assert slots is None or not expected or len(self.model.of_lane(lane, "running")) <= slots

    def settle(self, conn, job_id, number, how, earlier):
        job = self.model.running(job_id, number)
        state, event, spends, reason, error, code, name = ENDS[how]
        if how in BY_REQUEST and (job is None or job.request is None):
            return  # nobody ends an attempt so unless he was asked to
        at = round(self.model.now - 0.25, 3) if earlier else None
        detail = (
            error if event in ("failed", "timed_out") else "dead worker pid 7" if event == "reaped" else None
        )
        end = {
            "state": state, "event": event, "reason": reason, "error": error, "exit_code": code,
            "signal": name, "detail": detail, "worker_id": f"w{number}", "ended_at": at,
        }  # fmt: skip
        outcome = settle.Outcome(job_id, number, cost=COST[spends], **end)
        found = settle.settle(conn, outcome, self.model.now)
        assert found == self.model.settle(job_id, number, end, spends)
        if found == "queued" and spends and job.asked["backoff"][3] and job.next_run_at > self.model.now:
            self.drawn(conn, job)

    def drawn(self, conn, job):
        """With jitter j the delay is drawn from [(1−j)·d, d]: the store's draw is the model's."""
        (at,) = conn.execute("SELECT next_run_at FROM jobs WHERE id = ?", (job.id,)).fetchone()
        delay, jitter = self.model.backoff(job), job.asked["backoff"][3]
        assert (1 - jitter) * delay - 0.001 <= at - self.model.now <= delay + 0.001
        job.next_run_at = at

    # --- what must be equal after each step ---

    @invariant()
    def the_store_is_as_the_model(self):
        db = self.dbs[2]
        jobs = self.model.jobs
        found = db.all(
            "SELECT id, queue, state, attempts, crashes, attempt_no, finished_at, owner, request,"
            " request_detail, request_seen_at IS NOT NULL, last_exit_code, last_signal, last_error,"
            " last_failure_reason FROM jobs ORDER BY id"
        )
        assert found == [
            (
                job.id, job.lane, job.state, job.attempts, job.crashes, job.attempt_no, job.finished_at,
                job.owner, job.request, job.said, int(job.seen), *job.last.values(),
            )
            for job in jobs.values()
        ]  # fmt: skip
        assert db.all("SELECT id, next_run_at FROM jobs WHERE state = 'queued' ORDER BY id") == [
            (job.id, job.next_run_at) for job in jobs.values() if job.state == "queued"
        ]
        ran = db.all(
            "SELECT job_id, attempt_no, state, worker, pid, started_at, finished_at, exit_code, signal,"
            " error, failure_reason, ending_since, ending_pids, ending_why FROM attempts"
            " ORDER BY job_id, attempt_no"
        )
        assert ran == [
            (
                job.id, number, run["state"], run["worker"], run["pid"], run["started_at"],
                run["finished_at"], run["exit_code"], run["signal"], run["error"], run["reason"],
                *(run["stuck"] or (None, None, None)),
            )
            for job in jobs.values()
            for number, run in job.runs.items()
        ]  # fmt: skip
        told = db.all("SELECT job_id, at, event, worker_id, detail FROM job_events ORDER BY id")
        assert told == self.model.events
        counts = db.all("SELECT queue, state, n FROM counts WHERE n <> 0")
        assert {(lane, state): n for lane, state, n in counts} == Counter(
            (job.lane, job.state) for job in jobs.values()
        )
        active = Counter((job.lane, job.key) for job in jobs.values() if job.key and job.state in ACTIVE)
        assert not active or max(active.values()) == 1


def compare(number, examples, steps, derandomize):
    print(f"seed {number}")
    run_state_machine_as_test(
        seed(number)(lambda: Machine()) if not derandomize else Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, database=None,
            derandomize=derandomize, print_blob=not derandomize, suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_the_store_does_what_the_model_does():
    compare(0, 120, 50, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_store_does_what_the_model_does_for_longer():
    compare(int.from_bytes(os.urandom(4), "big"), 2000, 100, derandomize=False)
