"""SPEC 1.9 and 4: what jobs print is kept in private files; and whatever stands where those are written, put
there by the job itself or by anybody, costs that attempt only.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys

import pytest
from looking import failures, last, log_of, pid_in, printed, rows, started, story, told
from support import Answer, alive, checked, clean_env, command, wait_until
from workers import ALONE, GO, goes_on, kill, through, worked

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


# --- what is kept -----------------------------------------------------------------------------------------


def test_output_is_appended_by_whoever_opens_it(spool):
    ours = spool.add("-c", "echo one; echo two >>/dev/stdout; echo three")
    both = spool.add("-c", "echo err | tee -a /dev/stderr; echo out; echo last >&2")
    spool.work(check=0)
    assert printed(spool, ours) == b"one\ntwo\nthree\n"
    assert printed(spool, both) == b"err\nout\n"
    assert printed(spool, both, stream="stderr") == b"err\nlast\n"


@pytest.mark.parametrize("umask", ["022", "000"])
def test_every_file_is_private_from_its_first_moment(spool, umask):
    look = r"find .spoolctl \( -type d ! -perm 700 -o ! -type d ! -perm 600 \) -print"
    line = ["add", "--json", "--", "sh", "-c", look]
    done = subprocess.run(
        [*through(f"umask {umask}"), *command(*line)], cwd=spool.path, env=clean_env(), capture_output=True
    )
    job = checked(Answer(line, done.returncode, done.stdout, done.stderr), {}).data["job_id"]
    worked(spool, *through(f"umask {umask}"))
    assert printed(spool, job) == b""
    assert spool.state(job) == "done"
    for path in [spool.db.parent, *spool.db.parent.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_the_folder_may_be_moved_as_a_whole(spool):
    job = spool.add("-c", "echo text $SPOOLCTL_JOB_DB")
    spool.work(check=0)
    moved = spool.path / "else" / "where"
    moved.parent.mkdir()
    shutil.move(spool.db.parent, moved)
    at = ("--db", str(moved / "queue.db"))
    assert spool.json("output", str(job), *at)["streams"]["stdout"]["preview"] == f"text {spool.db}\n"
    again = spool.add(*at, "-c", "echo $SPOOLCTL_JOB_DB")
    spool.work(*at, check=0)
    shown = spool.json("output", str(again), *at)["streams"]["stdout"]
    assert shown["preview"].strip() == str(moved / "queue.db")
    assert shown["path"] == str(moved / "output" / str(again) / "1" / "stdout")


def test_files_found_under_a_new_attempts_number_are_emptied_and_links_are_not_followed(spool):
    stale, linked = spool.add("-c", "echo new"), spool.add("--max-retries", "0", "-c", "echo new")
    victim = spool.path / "victim"
    victim.write_text("precious")
    for job in (stale, linked):
        folder = spool.output / str(job) / "1"
        folder.mkdir(parents=True)
        (folder / "stderr").write_text("of an attempt that a power cut took back")
    (spool.output / str(stale) / "1" / "stdout").write_text("a long text of another time\n")
    (spool.output / str(linked) / "1" / "stdout").symlink_to(victim)
    spool.work(check=0)
    assert (printed(spool, stale), printed(spool, stale, stream="stderr")) == (b"new\n", b"")
    assert victim.read_text() == "precious"
    (text,) = failures(spool, linked)
    assert f"{spool.output}/{linked}/1/stdout" in text


def test_an_output_directory_that_cannot_be_made_fails_that_attempt_only(spool):
    job = spool.add("--max-retries", "1", "--backoff-base", "1h", "-c", "echo ran")
    spool.output.touch()
    other = spool.add("--max-retries", "0", "--", "true")
    worker = spool.start("work", "--json", "--drain", "--poll-interval", "0.1")
    spool.wait_for(other, "dead")
    assert str(spool.output) in failures(spool, other)[0]
    wait_until(lambda: told(spool, job) == ["added", "claimed", "failed"])
    spool.output.unlink()
    spool.run("retry", str(job), "--now", check=0)
    assert worker.wait(20) == 0
    assert told(spool, job) == ["added", "claimed", "failed", "retried", "claimed", "succeeded"]
    assert printed(spool, job, 2) == b"ran\n"


@linux
def test_output_past_its_limit_ends_the_tree(spool):
    many = "while :; do echo 0123456789012345678901234567890123456789; sleep 0.001; done"
    job = spool.add("--max-output", "2k", "--max-retries", "0", "-c", f"({many}) & ({many}) >&2 & wait")
    below = spool.add(
        "--max-output", "2k", "-c", "head -c 1024 /dev/zero; head -c 1024 /dev/zero >&2; sleep 0.3"
    )
    spool.work("-j", "2", check=0)
    attempt = last(spool, job)
    assert (attempt["state"], attempt["failure_reason"]) == ("failed", "output_limit")
    assert attempt["error"] == "output limit of 2048 bytes"
    assert story(spool, job)[-2:] == [("failed", "output limit of 2048 bytes"), ("dead", None)]
    assert len(printed(spool, job)) + len(printed(spool, job, stream="stderr")) > 2048
    assert spool.state(below) == "done"


# --- what stands in the way -------------------------------------------------------------------------------


def a_link_to_nothing(spool, output):
    output.symlink_to(spool.path / "nowhere")


def a_link_to_itself(spool, output):
    output.symlink_to(output)


def a_link_to_a_file(spool, output):
    (spool.path / "a file").touch()
    output.symlink_to(spool.path / "a file")


def a_pipe(spool, output):
    os.mkfifo(output)


@linux
@pytest.mark.parametrize("make", [a_link_to_nothing, a_link_to_itself, a_link_to_a_file, a_pipe])
def test_what_is_no_directory_fails_the_attempts_until_it_is_one(spool, make):
    job = spool.add("--max-retries", "0", "-c", "echo must not run >ran")
    make(spool, spool.output)
    worker = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(job, "dead")
    assert str(spool.output) in failures(spool, job)[0]
    assert not (spool.path / "ran").exists()
    spool.output.unlink()
    goes_on(spool, worker)


def the_jobs_directory_is_a_file(folder):
    folder.parent.touch()


def the_attempts_directory_is_a_file(folder):
    folder.parent.mkdir()
    folder.touch()


def a_stream_is_a_directory(folder):
    (folder / "stderr").mkdir(parents=True)


def a_stream_is_a_pipe(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "stdout")


def a_stream_is_a_link_to_a_pipe(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    (folder / "stdout").symlink_to("pipe")


@linux
@pytest.mark.parametrize(
    "make",
    [
        the_jobs_directory_is_a_file,
        the_attempts_directory_is_a_file,
        a_stream_is_a_directory,
        a_stream_is_a_pipe,
        a_stream_is_a_link_to_a_pipe,
    ],
)
def test_what_stands_in_the_way_of_one_job_fails_that_one_only(spool, make):
    first = spool.add("--", "true")
    blocked = spool.add("--max-retries", "0", "-c", "echo must not run >ran")
    spool.output.mkdir(mode=0o700)
    make(spool.output / str(blocked) / "1")
    worker = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(first, "done")
    spool.wait_for(blocked, "dead")
    assert f"{spool.output}/{blocked}" in failures(spool, blocked)[0]
    assert not (spool.path / "ran").exists()
    goes_on(spool, worker)


@linux
def test_output_on_another_device_is_kept_there(spool, in_memory):
    elsewhere = in_memory / "output"
    elsewhere.mkdir()
    jobs = [
        spool.add("-c", f"echo {n}; [ $SPOOLCTL_ATTEMPT -gt 1 ] || exit 1", "--backoff-base", "0")
        for n in (1, 2, 3)
    ]
    spool.output.symlink_to(elsewhere)
    assert spool.work(check=0).data["succeeded"] == 3
    for n, job in enumerate(jobs, 1):
        assert (elsewhere / str(job) / "2" / "stdout").read_text() == f"{n}\n"
        assert spool.json("output", str(job))["streams"]["stdout"]["preview"] == f"{n}\n"


@linux
def test_what_is_removed_beside_a_running_worker_is_made_again(spool):
    """output/, workers/, the gate, and the directory the worker was started in."""
    here = spool.path / "started here"
    here.mkdir()
    job = spool.add("-c", f"echo lost; {GO}; echo over")
    spool.add("--", "true")  # a spare pair is made while the first one runs
    worker = spool.start("work", "--db", str(spool.db), "--poll-interval", "0.1", cwd=here)
    started(spool, job)
    # A directory in which something is just being made cannot be removed.
    wait_until((spool.db.parent / "workers" / "1.spare" / "1" / "stderr").exists, 20, "the spare pair")
    for folder in (spool.output, spool.db.parent / "workers", here):
        shutil.rmtree(folder)
    (spool.db.parent / "gate").unlink()
    (spool.path / "go").touch()
    spool.wait_for(job, "done")
    goes_on(spool, worker)
    shown = spool.json("feedback", str(job))
    assert (shown["succeeded"], shown["streams"]["stdout"]["missing"]) == (True, True)
    assert spool.work("--once", check=0).data == {"claimed": False}
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert rows(spool, "SELECT * FROM workers") == []


@linux
def test_a_reaper_does_not_wait_on_a_pipe_that_the_job_put_in_the_place_of_its_output(spool):
    script = "cd .spoolctl/output/$SPOOLCTL_JOB_ID/1; rm stdout; mkfifo stdout; echo $$ >up; exec sleep 300"
    job = spool.add("--max-crashes", "0", "-c", script)
    first = spool.start("work", "--grace", "0.5")
    pid = started(spool, job)
    wait_until(lambda: (spool.output / str(job) / "1" / "up").exists())
    kill(first)
    second = spool.start("work", "--poll-interval", "0.1")
    spool.wait_for(job, "dead")
    assert not alive(pid)
    goes_on(spool, second)


# --- what a job puts there --------------------------------------------------------------------------------

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


@linux
@pytest.mark.parametrize("what", [*PUT, "nothing", "an empty file"])
def test_what_stands_where_a_dead_workers_job_wrote_keeps_nobody_from_bringing_it_back(spool, what):
    put = {"nothing": ":", "an empty file": ": >{0}"}.get(what) or PUT[what]
    files = "".join(f'rm "$d/1/{one}"; ' + put.format(f'"$d/1/{one}"') + "; " for one in ("stdout", "stderr"))
    script = f"[ $SPOOLCTL_ATTEMPT -gt 1 ] || {{ {HERE}{files} echo $$ >pid; exec sleep 300; }}"
    job = spool.add("--backoff-base", "0", "-c", ALONE + script)
    worker = spool.start("work", "--json")
    pid = pid_in(spool.path / "pid")
    kill(worker)
    assert alive(pid)
    spool.run("status", "--json", check=0)
    other = spool.start("work", "--json", "--poll-interval", "0.1")
    spool.wait_for(job, "done")
    assert not alive(pid)
    assert (spool.state(job), log_of(spool)) == ("done", ["start", "start"])
    goes_on(spool, other)


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_stands_where_a_workers_lock_was_is_no_lock(spool, what):
    worker = spool.start("work", "--json")
    wait_until(lambda: spool.json("status")["workers"], 20)
    lock = spool.db.parent / "workers" / "1.lock"
    lock.unlink()
    os.mkfifo(lock) if what == "pipe" else lock.mkdir()
    alive_now = [one["alive"] for one in spool.json("status")["workers"]]
    assert alive_now == [True]  # by its process
    kill(worker)
    job = spool.add()
    assert spool.work(check=0).data["executed"] == 1
    assert spool.state(job) == "done"
