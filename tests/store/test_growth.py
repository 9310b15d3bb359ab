"""QUALITY, Speed: what a call costs does not grow with the jobs that are there, ended or delayed.

Counted in steps of SQLite's machine over the whole call, not in seconds.
"""

from __future__ import annotations

import json

from support import Spool

from spoolctl.store import db

FEW, MANY = 400, 8_000  # of each kind

# What a call may cost more beside MANY than beside FEW.
GROWTH, SLACK = 1.3, 200


class Counting:
    """The steps of every connection that is opened while it counts."""

    def __init__(self, monkeypatch):
        self.steps = 0
        self.on = False
        real = db.connect

        def connect(*args, **more):
            conn = real(*args, **more)
            conn.set_progress_handler(self.step if self.on else None, 1)
            return conn

        monkeypatch.setattr(db, "connect", connect)

    def step(self):
        self.steps += 1

    def of(self, call):
        self.steps, self.on = 0, True
        try:
            call()
        finally:
            self.on = False
        return self.steps


def lines(count, **more):
    """Jobs in four lanes and five priorities, some with a key, some with tags."""
    found = []
    for n in range(count):
        job = {"argv": ["true"], "priority": n % 5, **more}
        if n % 10 == 0:
            job["key"] = f"{more['queue']}-{n}"
        if n % 10 == 1:
            job["tags"] = {"all": "x", "run": str(n // 1000)}
        found.append(json.dumps(job | {"queue": f"{more['queue']}{n % 4}"}))
    return "\n".join(found).encode()


def filled(folder, count):
    """So many canceled jobs, so many delayed ones, and one that is done."""
    folder.mkdir()
    spool = Spool(folder)
    spool.json("add", "--from", "-", stdin=lines(count, queue="old"))
    for n in range(4):
        spool.json("cancel", "--queue", f"old{n}")
    spool.json("add", "--from", "-", stdin=lines(count, queue="new", after="1h"))
    spool.add("--queue", "ran", "--", "true")
    spool.work("--queue", "ran")
    return spool


READING = {
    "status": ["status"],
    "list": ["list"],
    "list, state": ["list", "--state", "canceled"],
    "list, states": ["list", "--state", "queued,dead"],
    "list, a state that no job has": ["list", "--state", "dead"],
    "list, queue": ["list", "--queue", "old1"],
    "list, queue and state": ["list", "--queue", "new1", "--state", "queued"],
    "list, queue and another state": ["list", "--queue", "new1", "--state", "canceled"],
    "list, tag": ["list", "--tag", "all"],
    "list, tag and value": ["list", "--tag", "all=x"],
    "list, a value that no job has": ["list", "--tag", "all=y"],
    "list, key": ["list", "--key", "old-200"],
    "list, before": ["list", "--before", "300"],
    "show": ["show", "300"],
    "show by key": ["show", "key:old-200"],
    "feedback": ["feedback", "300"],
    "output": ["output", "300"],
    "events": ["events", "--limit", "20"],
    "events of a job": ["events", "--job", "300"],
    "wait": ["wait", "300"],
    "wait by key": ["wait", "key:old-200"],
    "prune of nothing": ["prune", "--older-than", "1d", "--queue", "none", "--yes"],
    "completion": ["completion", "--words", "jobs"],
}
WRITING = {
    "add": ["add", "--queue", "mine", "--key", "mine", "--tag", "all=x", "--", "true"],
    "add again": ["add", "--queue", "mine", "--key", "mine", "--tag", "all=x", "--", "true"],
    "add, kept": ["add", "--key-scope", "kept", "--queue", "old0", "--key", "old-200", "--", "true"],
    "work": ["work", "--once", "--queue", "mine"],
    "work, nothing due": ["work", "--once", "--queue", "new1"],
    "drain, nothing due": ["work", "--drain", "--queue", "new1"],
    "retry": ["retry", "5"],
    "cancel": ["cancel", "5"],
    "retry by key": ["retry", "key:old-240"],
    "cancel of a lane": ["cancel", "--queue", "none"],
    "retry of all": ["retry", "--all-dead"],
}


def test_no_call_takes_more_steps_beside_more_jobs(tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    spools = filled(tmp_path / "few", FEW), filled(tmp_path / "many", MANY)

    def cost(spool, words):
        return counting.of(lambda: exits.append(spool.run(*words, "--json").exit))

    exits: list[int] = []
    costs = {name: [cost(spool, words) for spool in spools] for name, words in {**READING, **WRITING}.items()}
    assert set(exits) <= {0, 6}  # 6: what is waited for was canceled
    assert all(few > 50 for few, _ in costs.values()), costs
    grown = {name: [few, many] for name, (few, many) in costs.items() if many > few * GROWTH + SLACK}
    assert grown == {}
