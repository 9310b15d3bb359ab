"""QUALITY, chaos: everything at once, in a short run with the suite and a long one on demand; and that
the judge of such a run finds what is wrong with it.
"""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from support import ROOT, checked_line, clean_env

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or shutil.which("flock") is None,
        reason="finds what is left by /proc, and its jobs need the command flock",
    ),
    pytest.mark.timeout(300),
]

SEEDS = (20261, 20262, 20263)


def chaos(folder, *words, limit):
    """The table of a run; it fails with what was broken."""
    environ = clean_env(TMPDIR=str(folder))
    environ.pop("PYTHONPATH")  # it runs from a checkout as it is
    line = [sys.executable, str(ROOT / "scripts" / "chaos.py"), "--json", *words]
    with subprocess.Popen(line, cwd=folder, env=environ, stdout=-1, stderr=-1, text=True) as run:
        try:
            out, err = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            run.terminate()  # it clears up after itself
            raise
    print(err)
    assert out, err
    table = json.loads(out)
    print(table)
    assert table["broken"] == []
    assert (run.returncode, table["overlaps"], table["lost"], table["crowded"]) == (0, 0, 0, 0)
    return table


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """(table, folder, what the follower saw) of one run."""
    folder = tmp_path_factory.mktemp("chaos")
    words = ("--workers", "5", "--jobs", "150", "--seed", str(SEEDS[0]), "--seconds", "200", "--keep")
    table = chaos(folder, *words, limit=280)
    (kept,) = folder.iterdir()
    with open(kept / "frames") as lines:
        frames = [checked_line(line, ["events", "--follow", "--json"]) for line in lines]
    return table, kept, frames


def test_a_short_chaos_breaks_nothing(short_run):
    table, _, _ = short_run
    for name in ("kills", "stops", "terms", "cancels", "retries", "reaped"):
        assert table[name] > 0, f"it did not do much: {table}"


@pytest.mark.soak
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_chaos_breaks_nothing(tmp_path, seed):
    table = chaos(tmp_path, "--seed", str(seed), "--seconds", "900", limit=990)
    assert table["jobs"] > 1800
    assert list(tmp_path.iterdir()) == []


# --- the judge --------------------------------------------------------------------------------------------


def a_job(run, state="done"):
    return next(row for row in run.jobs.values() if row["state"] == state and row["attempt_no"] > 0)


def lose(run, frames):
    row = next(row for row in run.jobs.values() if row["note"] and not row["tagged"])
    del run.jobs[row["id"]]


def forget_a_claim(run, frames):
    frames.remove(next(frame for frame in frames if frame["event"] == "claimed"))


def claim_twice(run, frames):
    n = next(n for n, frame in enumerate(frames) if frame["event"] == "claimed")
    frames.insert(n, dict(frames[n], id=frames[n]["id"] - 0.5))


def grant_another_try(run, frames):
    a_job(run, "dead").update(max_retries=50, max_crashes=50)


def let_attempts_overlap(run, frames):
    attempts = next(found for found in run.attempts.values() if len(found) > 1)
    attempts[2]["started_at"] = attempts[1]["started_at"]


def share_a_key(run, frames):
    for row in run.jobs.values():
        row.update(queue="default", key="k")


def start_twice(run, frames):
    run.starts[next(iter(run.starts))] += 1


def end_without_success(run, frames):
    row = a_job(run)
    del run.ends[row["id"], row["attempt_no"]]


def leave_a_worker(run, frames):
    run.workers.append(("w1",))


def miscount(run, frames):
    queue, kind, state, n = run.counts.pop()
    run.counts.append((queue, kind, state, n + 1))


@pytest.mark.parametrize(
    ("falsify", "complaint"),
    [
        (None, None),
        (lose, "lost"),
        (lambda run, frames: a_job(run).update(state="queued"), "is queued at the end"),
        (lambda run, frames: a_job(run).update(attempts=9), "its events say"),
        (lambda run, frames: a_job(run).update(note="n"), "not n"),
        (lambda run, frames: run.attempts[a_job(run)["id"]].popitem(), "attempts"),
        (lambda run, frames: run.attempts[a_job(run)["id"]][1].update(state="failed"), "is failed"),
        (forget_a_claim, "did not see event"),
        (forget_a_claim, "while queued"),
        (claim_twice, "claimed after claimed while running"),
        (grant_another_try, "dead after"),
        (let_attempts_overlap, "began before the one before it was over"),
        (share_a_key, "are both active"),
        (start_twice, "started 2 times"),
        (end_without_success, "done without a run that ended well"),
        (lambda run, frames: run.cries.append(("overlap", 1, 1)), "overlap"),
        (lambda run, frames: frames.reverse(), "out of order"),
        (leave_a_worker, "rows of workers"),
        (miscount, "counts"),
    ],
)
def test_the_judge_of_a_run_finds_what_is_wrong(short_run, monkeypatch, falsify, complaint):
    _, kept, frames = short_run
    frames = copy.deepcopy(frames)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from chaos_parts import verdict

    run = verdict.Run(str(kept))
    with closing(sqlite3.connect(kept / ".spoolctl" / "queue.db")) as db:
        tagged = {row[0] for row in db.execute("SELECT job_id FROM job_tags")}
    asked = {
        number: {"note": row["note"], "max_retries": row["max_retries"], "max_crashes": row["max_crashes"]}
        | ({"tags": {}} if number in tagged else {})
        for number, row in run.jobs.items()
    }
    for number, row in run.jobs.items():
        row["tagged"] = number in tagged
    if falsify is not None:
        falsify(run, frames)
    broken, _ = verdict.verdict(run, asked, frames, 0)
    if complaint is None:
        assert broken == []
    else:
        assert any(complaint in line for line in broken), broken
