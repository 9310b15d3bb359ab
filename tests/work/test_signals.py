"""Signals to a worker (SPEC 5): the first lets what runs finish, the second ends it and costs nothing,
and a leader that somebody's signal to everybody took is interrupted, not failed.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time

import pytest
from looking import last, rows, started, told
from support import alive, clean_env, command, finish, wait_until
from workers import GO, scripted, state_of, tell, through

STOPPING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
NAMES = {number: number.name for number in STOPPING}


def answer_of(worker):
    return finish(worker, 30, check=0).data


def workers_left(spool):
    return rows(spool, "SELECT count(*) FROM workers")[0][0] + len(os.listdir(spool.db.parent / "workers"))


@pytest.mark.parametrize("number", STOPPING, ids=NAMES.get)
def test_the_first_signal_claims_nothing_more_and_lets_what_runs_finish(spool, number):
    running = spool.add("-c", GO)
    worker = spool.start("work", "--json", "-j", "3", "--poll-interval", "0.05")
    leader = started(spool, running)
    tell(worker, number)
    more = spool.add("--", "true")
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.4)
    assert alive(leader)
    (spool.path / "go").touch()
    assert answer_of(worker) == {"stopped": True, "executed": 1}
    assert (spool.state(running), spool.state(more)) == ("done", "queued")
    assert told(spool, more) == ["added"]
    assert workers_left(spool) == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGHUP), (signal.SIGHUP, signal.SIGTERM)],
)
def test_the_second_ends_the_trees_and_queues_the_jobs_again_for_nothing(spool, first, second):
    script = "setsid sleep 300 & sleep 300 & echo up; wait"
    jobs = [spool.add("--max-retries", "0", "--max-crashes", "0", "-c", script) for _ in range(2)]
    worker = spool.start("work", "--json", "-j", "2", "--grace", "60")
    for job in jobs:
        started(spool, job, b"up\n")
    began = time.time()
    tell(worker, first, second)
    assert answer_of(worker) == {"stopped": True, "executed": 2}
    assert time.time() - began < 30  # they obey TERM: nobody waits for the grace
    for job in jobs:
        shown = spool.show(job)
        attempt = shown["attempts"][-1]
        assert (attempt["state"], attempt["failure_reason"]) == ("abandoned", "worker_shutdown")
        assert attempt["error"] == "worker stopped"
        row = shown["job"]
        assert (row["state"], row["attempts"], row["crashes"]) == ("queued", 0, 0)
        assert began - 0.001 <= row["next_run_at"] <= time.time()  # at once, no backoff
        assert told(spool, job) == ["added", "claimed", "interrupted"]
    assert workers_left(spool) == 0
    # `spool` fails this test when anything of the trees still runs.


def test_the_second_signal_gives_the_deaf_their_grace_and_then_kills(spool):
    job = spool.add("-c", "trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done")
    out = spool.output / str(job) / "1" / "stdout"
    worker = spool.start("work", "--json", "--drain", "--grace", "2")  # in which the shell has to say so
    wait_until(lambda: out.exists() and out.read_bytes() == b"up\n")
    began = time.monotonic()
    tell(worker, signal.SIGTERM, signal.SIGINT)
    data = answer_of(worker)
    assert time.monotonic() - began >= 2
    assert (data["drained"], data["executed"], data["failed"]) == (False, 1, 0)
    assert out.read_bytes().startswith(b"up\nheard\n")
    attempt = last(spool, job)
    assert (attempt["state"], attempt["signal"]) == ("abandoned", "SIGKILL")
    assert spool.state(job) == "queued"


def test_once_says_that_it_was_interrupted(spool):
    job = spool.add("-c", "echo up; exec sleep 300")
    worker = spool.start("work", "--json", "--once")
    started(spool, job)
    tell(worker, signal.SIGTERM, signal.SIGINT)
    assert answer_of(worker) == {
        "claimed": True,
        "job_id": job,
        "attempt_no": 1,
        "result": "interrupted",
        "job_state": "queued",
    }


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(spool, number):
    job = spool.add("-c", GO)
    worker = subprocess.Popen(
        [*through(f'trap "" {number}'), *command("work", "--drain", "--json")],
        cwd=spool.path, env=clean_env(), stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        leader = started(spool, job)
        tell(worker, number, number, number)
        assert (worker.poll(), alive(leader)) == (None, True)
        (spool.path / "go").touch()
        assert answer_of(worker)["drained"] is True
        assert told(spool, job) == ["added", "claimed", "succeeded"]
    finally:
        worker.kill()
        worker.communicate()


def test_an_ignored_term_is_heard_all_the_same(spool):
    worker = subprocess.Popen(
        [*through('trap "" TERM HUP'), *command("work", "--json")],
        cwd=spool.path, env=clean_env(), stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: spool.json("status")["workers"])
        worker.send_signal(signal.SIGTERM)
        assert answer_of(worker) == {"stopped": True, "executed": 0}
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize("order", ["leader first", "worker first"])
def test_a_leader_taken_by_a_signal_to_everybody_is_interrupted(spool, order):
    program = (
        "from spoolctl.work import attempt; attempt.HOLD *= 30; "  # however late the second signal is
        "from spoolctl.__main__ import main; main()"
    )
    job = spool.add("--max-retries", "0", "--", "sleep", "300")
    worker = scripted(spool, program, "work", "--json")
    leader = started(spool, job)
    if order == "leader first":
        os.kill(leader, signal.SIGTERM)
        wait_until(lambda: state_of(leader) == "Z", 20)
        time.sleep(0.3)  # the worker sees it; and if it does not yet, nothing is shown wrong
        worker.send_signal(signal.SIGTERM)
    else:
        worker.send_signal(signal.SIGTERM)
        os.kill(leader, signal.SIGTERM)
    assert answer_of(worker) == {"stopped": True, "executed": 1}
    attempt = last(spool, job)
    assert (attempt["state"], attempt["failure_reason"]) == ("abandoned", "worker_shutdown")
    assert (attempt["signal"], attempt["exit_code"]) == ("SIGTERM", -15)
    assert spool.show(job)["job"]["attempts"] == 0
    assert told(spool, job) == ["added", "claimed", "interrupted"]


def test_a_job_that_ends_itself_by_a_signal_has_failed_when_nobody_stops_the_worker(spool):
    once = ("--max-retries", "0", "-c")
    jobs = {name: spool.add(*once, f"kill -{name} $$") for name in ("TERM", "INT", "HUP")}
    told_so = spool.add(*once, "exit 143")
    worker = spool.start("work", "--json", "-j", "4")
    for job in (*jobs.values(), told_so):
        spool.wait_for(job, "dead")
    for name, job in jobs.items():
        attempt = last(spool, job)
        assert (attempt["state"], attempt["failure_reason"]) == ("failed", "process_exit")
        assert (attempt["error"], attempt["signal"]) == (f"signal SIG{name}", f"SIG{name}")
    worker.send_signal(signal.SIGTERM)
    assert answer_of(worker)["executed"] == 4
    assert {spool.state(job) for job in jobs.values()} == {"dead"}


def test_a_result_that_the_command_gave_itself_stands_although_the_worker_is_stopped(spool):
    """The end of a command that obeys the same TERM with a status of its own is its own."""
    job = spool.add("--max-retries", "0", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    out = spool.output / str(job) / "1" / "stdout"
    worker = spool.start("work", "--json")
    wait_until(lambda: out.exists() and out.read_bytes() == b"up\n")
    leader = started(spool, job)
    worker.send_signal(signal.SIGTERM)
    os.kill(leader, signal.SIGTERM)
    assert answer_of(worker)["executed"] == 1
    assert spool.state(job) == "done"


def test_a_worker_with_nothing_to_do_leaves_at_once(spool):
    idle = ("work", "--json", "--poll-interval", "30")
    workers = [spool.start(*idle, "--worker-id", str(n)) for n in range(3)]
    wait_until(lambda: len(spool.json("status")["workers"]) == 3)
    spool.add("--after", "1h", "--", "true")
    for worker, number in zip(workers, STOPPING, strict=True):
        began = time.monotonic()
        worker.send_signal(number)
        assert answer_of(worker) == {"stopped": True, "executed": 0}
        assert time.monotonic() - began < 20  # not its next poll
    assert workers_left(spool) == 0


def test_a_signal_at_any_moment_of_the_start_leaves_nothing_running(spool):
    job = spool.add("-c", "sleep 0.2")
    for delay in range(13):
        worker = spool.start("work", "--json")
        if delay < 12:
            time.sleep(delay * 0.02)
        else:  # one at least comes as far as that, on a slow machine too
            wait_until(lambda: spool.json("status")["workers"])
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) in (0, -signal.SIGTERM)
        assert spool.state(job) in ("queued", "done")
    assert workers_left(spool) == 0


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="needs a pipe of a chosen size")
def test_an_unread_pipe_does_not_stop_the_queue(spool):
    spool.json("add", "--from", "-", stdin=b"exit 0\n" * 300)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    worker = spool.start("work", "--idle-timeout", "60", stdout=write, stderr=write)
    os.close(write)
    try:
        wait_until(lambda: spool.json("status")["counts"]["done"] == 300, 60)
        seen = os.read(read, 65536)
        assert seen.startswith(b"spoolctl: job 1 attempt 1 succeeded in ")
        assert seen.count(b"\n") < 300
        # Read again, it is told again, and how much was dropped.
        spool.add("--", "true")
        while b"job 301 attempt 1 succeeded in " not in seen:
            seen += os.read(read, 65536)
        assert b" lines dropped) job " in seen
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    finally:
        os.close(read)


def test_a_reader_that_went_away_does_not_stop_the_queue(spool):
    spool.json("add", "--from", "-", stdin=b"exit 0\n" * 20)
    read, write = os.pipe()
    worker = spool.start("work", "--drain", stdout=write, stderr=write)
    os.close(write)
    os.close(read)
    assert worker.wait(30) == 0
    assert spool.json("status")["counts"]["done"] == 20
