"""SPEC 1.9: whatever a job puts in the place of its files, its worker and those that look after it go on."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from support import alive, wait_until

HERE = 'd=$(dirname "$SPOOLCTL_JOB_DB")/output/$SPOOLCTL_JOB_ID; '
# Opened for reading and writing, a pipe waits for nobody: then it has a reader.
READER = "(exec 3<>{0}; exec 9>up; exec sleep 300 >/dev/null 2>&1) & until [ -e up ]; do :; done"
PUT = {
    "pipe": "mkfifo {0}",
    "pipe with a reader": "mkfifo {0}; " + READER,
    "folder": "mkdir {0}",
    "link": "ln -s /dev/null {0}",
    "pipe by a link": "mkfifo pipe; ln -s $PWD/pipe {0}",
}


@pytest.mark.parametrize("what", list(PUT))
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_stands_where_the_next_attempt_writes_fails_that_attempt_only(spool, what, stream):
    put = PUT[what].format(f'"$d/2/{stream}"')
    script = f'{HERE} mkdir "$d/2"; {put}; exit 3'
    job = spool.add("--max-retries", "1", "--backoff-base", "0", "--keep-children", "-c", script)
    after = spool.add("--priority", "-1", "--", "echo", "goes on")
    spool.leaves_processes()
    assert spool.work(check=0).data["executed"] == 3
    first, second = spool.show(job)["attempts"]
    assert first["error"] == "exit 3"
    assert (second["state"], second["failure_reason"]) == ("failed", "spawn_failed")
    assert f"/output/{job}/2/{stream}" in second["error"]
    assert spool.state(after) == "done"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")
@pytest.mark.parametrize("what", [*PUT, "nothing", "an empty file"])
def test_what_stands_where_a_dead_workers_job_wrote_keeps_nobody_from_bringing_it_back(spool, what):
    put = {"nothing": ":", "an empty file": ": >{0}"}.get(what) or PUT[what]
    files = "".join(f'rm "$d/1/{one}"; ' + put.format(f'"$d/1/{one}"') + "; " for one in ("stdout", "stderr"))
    alone = "exec 9>>alone; flock -n 9 || echo overlap >>log; echo start >>log; "
    script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {HERE}{files} echo $$ >pid; exec sleep 300; }}"
    job = spool.add("--backoff-base", "0", "-c", alone + script)
    worker = spool.start("work", "--json")
    pid = int(wait_until(lambda: (path := spool.path / "pid").exists() and path.read_text().strip(), 20))
    worker.send_signal(signal.SIGKILL)
    worker.wait(20)
    assert alive(pid)
    spool.run("status", "--json", check=0)
    spool.start("work", "--json", "--poll-interval", "0.1")
    spool.wait_for(job, "done")
    assert not alive(pid)
    assert (spool.state(job), (spool.path / "log").read_text().split()) == ("done", ["start", "start"])


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_stands_where_a_workers_lock_was_is_no_lock(spool, what):
    worker = spool.start("work", "--json")
    wait_until(lambda: spool.json("status")["workers"], 20)
    lock = spool.db.parent / "workers" / "1.lock"
    lock.unlink()
    os.mkfifo(lock) if what == "pipe" else lock.mkdir()
    alive_now = [one["alive"] for one in spool.json("status")["workers"]]
    assert alive_now == [True]  # by its process
    worker.kill()
    worker.wait(20)
    job = spool.add()
    assert spool.work(check=0).data["executed"] == 1
    assert spool.state(job) == "done"
