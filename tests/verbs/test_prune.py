"""prune: what goes and what stays, and that a killed prune is finished by the next one."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from looking import rows
from support import clean_env, finish, wait_until

from spoolctl import hooks
from spoolctl.store import prune as store

# Runs the tool and kills it at the n-th passage of a named point.
DIES = """
import os, sys
from spoolctl import hooks
point, left = sys.argv.pop(1), [int(sys.argv.pop(1))]
def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), 9)
hooks.AT[point] = die
from spoolctl.__main__ import main
main()
"""


@pytest.fixture(autouse=True)
def _no_hooks_left():
    yield
    hooks.AT.clear()


def ran(spool, count, *flags, script="echo $SPOOLCTL_JOB_ID"):
    """Jobs that have run, each with three bytes of output or so."""
    answer = spool.json(
        "add", "--from", "-", "--max-retries", "0", *flags, stdin=f"{script}\n".encode() * count
    )
    spool.work("-j", "4", *(flags[flags.index("--queue") :][:2] if "--queue" in flags else ()), check=0)
    return answer["job_ids"]


def kept(spool):
    return sorted(job["id"] for job in spool.json("list", "--limit", "0")["jobs"])


def folders(spool):
    return sorted(int(name) for name in os.listdir(spool.output)) if spool.output.exists() else []


def prune(spool, *flags, older="0"):
    return spool.json("prune", "--older-than", older, *flags)


# --- what goes --------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_a_prune_then_does(spool):
    ran(spool, 5)
    dead = ran(spool, 2, script="echo x; exit 1")
    queued = spool.add("--after", "1h", "--", "true")
    before = spool.files()
    dry = prune(spool, "--dry-run")
    assert dry == {
        "matched": 5,
        "deleted_jobs": 5,
        "deleted_attempts": 5,
        "deleted_events": 15,
        "freed_bytes": 10,
        "dry_run": True,
        "actual": False,
    }
    assert (kept(spool), spool.files()) == ([1, 2, 3, 4, 5, *dead, queued], before)
    assert prune(spool, "--yes") == dry | {"dry_run": False, "actual": True, "irreversible": True}
    assert (kept(spool), folders(spool)) == ([*dead, queued], dead)
    for table in ("attempts", "job_events", "job_tags"):
        assert not rows(spool, f"SELECT 1 FROM {table} WHERE job_id NOT IN (SELECT id FROM jobs)")
    assert spool.json("status")["counts"]["done"] == 0
    assert prune(spool, "--yes")["matched"] == 0
    assert spool.add() > queued  # ids are never used again


def test_each_selector_narrows_and_keep_spares_the_newest(spool):
    a = ran(spool, 3, "--queue", "a", "--tag", "run=1")
    b = ran(spool, 3, "--queue", "b", "--tag", "run=2")
    c = ran(spool, 2, "--queue", "a", "--tag", "run=2")
    canceled = spool.add("--queue", "b", "--", "true")
    spool.run("cancel", str(canceled), check=0)

    def matched(*flags):
        return prune(spool, "--dry-run", *flags)["matched"]

    assert [matched(), matched("--queue", "a"), matched("--tag", "run"), matched("--tag", "run=2")] == [
        8,
        5,
        8,
        5,
    ]
    assert matched("--tag", "run=2", "--queue", "a") == 2
    assert matched("--tag", "run=1", "--tag", "run=2") == 0
    assert [matched("--state", "canceled"), matched("--state", "dead,canceled,done")] == [1, 9]
    assert [matched("--keep", n) for n in ("0", "1", "7", "8", "9000")] == [8, 7, 1, 0, 0]
    assert matched("--keep", "2", "--queue", "a") == 3
    prune(spool, "--yes", "--keep", "1", "--queue", "a")
    assert kept(spool) == [*b, c[1], canceled]
    prune(spool, "--yes", "--state", "canceled,done")
    assert (kept(spool), folders(spool), a[0]) == ([], [], 1)


def test_age_counts_from_the_end_and_keep_counts_the_young_too(spool):
    ran(spool, 6)
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE jobs SET finished_at = finished_at - 7200 WHERE id <= 4")
    db.commit()
    db.close()
    assert prune(spool, "--dry-run", older="3h")["matched"] == 0
    assert prune(spool, "--dry-run", older="1h")["matched"] == 4
    assert prune(spool, "--dry-run", "--keep", "3", older="1h")["matched"] == 3
    prune(spool, "--yes", older="1h")
    assert kept(spool) == [5, 6]


def test_nothing_is_asked_of_the_database_before_it_is_confirmed(spool):
    assert spool.run("prune", "--json", check=1).code == "MISSING_REQUIRED"
    assert spool.run("prune", "--yes", "--json", check=1).code == "MISSING_REQUIRED"
    spool.db.parent.mkdir(mode=0o700)
    spool.db.write_bytes(b"no database" * 100)
    answer = spool.run("prune", "--older-than", "1d", "--json", check=2)
    assert answer.code == "SAFETY_BLOCK"
    assert answer.error["remediation"] == "spoolctl prune --older-than 86400 --dry-run"
    for flags in (["--yes", "--dry-run"], ["--yes", "--state", "queued"], ["--yes", "--keep", "-1"]):
        assert spool.run("prune", "--older-than", "1d", "--json", *flags, check=1).code == "INVALID_INPUT"
    assert spool.run("prune", "--older-than", "1d", "--yes", "--json", check=3).code == "DB_INVALID"


def test_a_missing_database_is_zeros_and_is_not_made(spool):
    for flags in (["--dry-run"], ["--yes"], ["--yes", "--compact", "--keep", "3"]):
        answer = prune(spool, *flags)
        assert {key: answer[key] for key in ("matched", "deleted_jobs", "freed_bytes")} == {
            "matched": 0,
            "deleted_jobs": 0,
            "freed_bytes": 0,
        }
    assert spool.files() == []


def test_text_is_one_line(spool):
    ran(spool, 2)
    line = "2 jobs, 2 attempts, 6 events; 4 bytes of output\n"
    assert spool.run("prune", "--older-than", "0", "--dry-run", check=0).text == f"would delete {line}"
    assert spool.run("prune", "--older-than", "0", "--yes", check=0).text == f"deleted {line}"


# --- what happens meanwhile -------------------------------------------------------------------------------


def test_a_job_that_is_retried_in_between_stays_with_its_output(spool, monkeypatch):
    monkeypatch.setattr(store, "BATCH", 3)
    ran(spool, 7, script="echo x; exit 1")
    retried = iter([[2], [5], [], []])
    hooks.AT["prune: selected"] = lambda: [spool.run("retry", str(n), check=0) for n in next(retried)]
    answer = prune(spool, "--yes", "--state", "dead")
    assert (answer["matched"], answer["deleted_jobs"]) == (7, 5)
    assert kept(spool) == folders(spool) == [2, 5]
    assert spool.state(2) == "queued"
    assert spool.run("output", "2", check=0).out == b"x\n"


def test_missing_and_foreign_files_do_not_matter_and_links_are_not_followed(spool):
    ran(spool, 4)
    elsewhere = spool.path / "precious"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("kept")
    for path in (spool.output / "1" / "1").iterdir():
        path.unlink()
    (spool.output / "1" / "1").rmdir()
    (spool.output / "2" / "1" / "stdout").unlink()
    (spool.output / "2" / "1" / "link").symlink_to(elsewhere)
    (spool.output / "3" / "more").mkdir()
    (spool.output / "3" / "more" / "file").write_text("more")
    (spool.output / "4").rename(spool.path / "moved")
    (spool.output / "4").symlink_to(elsewhere)
    assert prune(spool, "--yes")["deleted_jobs"] == 4
    assert (folders(spool), rows(spool, "SELECT * FROM pruned")) == ([], [])
    assert (elsewhere / "file").read_text() == "kept"


def test_output_that_cannot_be_removed_is_tried_again_by_the_next(spool, monkeypatch):
    ran(spool, 3)
    real = os.unlink

    def unlink(path, *rest, **more):
        if b"/output/2/" in os.fsencode(path):
            raise PermissionError(13, "Permission denied", path)
        real(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        answer = spool.run("prune", "--older-than", "0", "--yes", check=0)
    assert "output of 1 job cannot be removed" in answer.err
    assert (kept(spool), folders(spool), rows(spool, "SELECT * FROM pruned")) == ([], [2], [(2,)])
    prune(spool, "--yes")
    assert (folders(spool), rows(spool, "SELECT * FROM pruned")) == ([], [])


@pytest.mark.parametrize(
    ("point", "passage", "jobs", "output", "marks"),
    [
        ("prune: selected", 1, [1, 2, 3], [1, 2, 3], []),
        ("prune: rows going", 1, [1, 2, 3], [1, 2, 3], []),
        ("prune: rows gone", 1, [], [1, 2, 3], [1, 2, 3]),
        ("prune: output going", 1, [], [1, 2, 3], [1, 2, 3]),
        ("prune: output going", 3, [], [3], [1, 2, 3]),
        ("prune: output gone", 1, [], [], [1, 2, 3]),
    ],
)
def test_a_killed_prune_loses_nothing_and_is_finished_by_the_next(spool, point, passage, jobs, output, marks):
    ran(spool, 3)
    dead = ran(spool, 1, script="echo x; exit 1")
    command = [sys.executable, "-c", DIES, point, str(passage), "prune", "--older-than", "0", "--yes"]
    killed = subprocess.run(command, cwd=spool.path, env=clean_env(), capture_output=True, timeout=60)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")

    def left():
        return kept(spool), folders(spool), [n for (n,) in rows(spool, "SELECT job_id FROM pruned")]

    assert left() == ([*jobs, *dead], [*output, *dead], marks)
    assert prune(spool, "--dry-run")["deleted_jobs"] == len(jobs)
    assert left() == ([*jobs, *dead], [*output, *dead], marks)
    assert prune(spool, "--yes")["deleted_jobs"] == len(jobs)
    assert left() == (dead, dead, [])
    assert rows(spool, "PRAGMA integrity_check") == [("ok",)]


def test_workers_go_on_and_running_jobs_are_never_touched(spool):
    spool.run("add", "--from", "-", stdin=b"echo x\n" * 120, check=0)
    blocker = spool.add("--priority", "5", "-c", "echo early; while [ ! -e go ]; do sleep 0.05; done")
    worker = spool.start("work", "--drain", "--json", "-j", "3")
    deleted = 0
    while spool.json("status")["counts"]["queued"]:
        deleted += prune(spool, "--yes", "--state", "done,dead,canceled")["deleted_jobs"]
    wait_until(lambda: spool.json("status")["counts"]["running"] == 1)
    deleted += prune(spool, "--yes", "--state", "done,dead,canceled")["deleted_jobs"]
    assert deleted == 120
    assert kept(spool) == folders(spool) == [blocker]
    wait_until(lambda: spool.run("output", str(blocker), check=0).out == b"early\n")
    (spool.path / "go").touch()
    assert finish(worker, 30, check=0).data["succeeded"] == 121
    assert rows(spool, "PRAGMA integrity_check") == [("ok",)]


def test_compact_gives_the_space_back_beside_a_worker(spool):
    worker = spool.start("work", "--json", "--queue", "other")
    spool.run("add", "--from", "-", "--note", "n" * 500, stdin=b"true\n" * 5000, check=0)
    spool.run("cancel", "--queue", "default", check=0)
    reader = sqlite3.connect(spool.db)
    pages = reader.execute("PRAGMA page_count").fetchone()[0]
    assert prune(spool, "--yes", "--state", "canceled")["deleted_jobs"] == 5000
    assert reader.execute("PRAGMA page_count").fetchone()[0] >= pages
    prune(spool, "--yes", "--compact")
    assert reader.execute("PRAGMA freelist_count").fetchone()[0] == 0
    assert reader.execute("PRAGMA page_count").fetchone()[0] < pages / 10
    assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    reader.close()
    assert spool.db.stat().st_size < pages * 4096 / 10
    assert worker.poll() is None
