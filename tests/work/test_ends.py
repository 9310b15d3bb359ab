"""SPEC 5: what the end of a command means: for what it left behind, for its result, and for the next try."""

from __future__ import annotations

import signal
import sys
import time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looking import last, pid_in, printed, started, story, told
from support import alive
from workers import held

from spoolctl.contract.backoff import delay

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


# --- the tree ---------------------------------------------------------------------------------------------


@linux
def test_what_a_command_leaves_behind_is_ended_and_the_event_says_so(spool):
    left = {
        "child": "sleep 313 & exit 0",
        "two": "sleep 313 & sleep 313 & exit 0",
        "session": "setsid sleep 313 & exit 0",
        "own group": "timeout 60 sh -c ': >up; exec sleep 300' & until [ -e up ]; do :; done; exit 0",
        "job control": "exec bash -c 'set -m; sleep 300 & exit 0'",
        "no token": "env -i sleep 300 >/dev/null 2>&1 & exit 0",
        "no token, no session": "env -i setsid sleep 300 >/dev/null 2>&1 & exit 0",
        "twice away": "setsid sh -c 'env -i setsid sleep 300 >/dev/null 2>&1 & exit 0' & wait; exit 0",
        "stopped": "sleep 300 & kill -STOP $!; exit 0",
        "deaf": "(trap '' TERM; exec sleep 300) & exit 0",
    }
    jobs = {name: spool.add("-c", script) for name, script in left.items()}
    failed = spool.add("--max-retries", "0", "-c", "sleep 313 & exit 3")
    clean = spool.add("-c", "sleep 0.01 & wait")
    spool.work("--grace", "0.3", check=0)
    seen = {name: story(spool, job)[-1] for name, job in jobs.items()}
    more = {"two": 2, "own group": 2}
    assert seen == {name: ("succeeded", f"ended {more.get(name, 1)} left processes") for name in left}
    assert story(spool, failed)[-2:] == [("failed", "exit 3; ended 1 left processes"), ("dead", None)]
    assert last(spool, failed)["error"] == "exit 3"
    assert story(spool, clean)[-1] == ("succeeded", None)
    # `spool` fails this test when any of them still runs.


@linux
def test_kept_children_live_through_the_end_and_through_later_jobs(spool):
    spool.leaves_processes()
    later = "sleep 0.6; env sleep 315 >/dev/null 2>&1 & echo $! >late; exit 0"
    scripts = {
        "plain": "sleep 313 & echo $! >plain; exit 0",
        "away": "setsid sleep 314 >/dev/null 2>&1 & echo $! >away; exit 0",
        "late": f'setsid sh -c "{later.replace("$", chr(92) + "$")}" & exit 0',
    }
    jobs = [spool.add("--keep-children", "-c", script) for script in scripts.values()]
    others = [spool.add("-c", "sleep 0.4; (sleep 316 &) ; exit 0") for _ in range(3)]
    spool.work("-j", "2", check=0)
    assert {spool.state(job) for job in jobs + others} == {"done"}
    assert [story(spool, job)[-1] for job in jobs] == [("succeeded", None)] * 3
    assert {name: alive(pid_in(spool.path / name)) for name in scripts} == dict.fromkeys(scripts, True)
    assert [story(spool, job)[-1] for job in others] == [("succeeded", "ended 1 left processes")] * 3


@linux
def test_keep_children_holds_at_the_normal_end_only(spool):
    late = spool.add("--keep-children", "--timeout", "0.3", "--max-retries", "0", "-c", "sleep 313 & wait")
    loud = spool.add(
        "--keep-children", "--max-output", "1", "--max-retries", "0", "-c", "echo ab; sleep 313 & wait"
    )
    spool.work("-j", "2", "--grace", "0.5", check=0)
    assert last(spool, late)["state"] == "timed_out"
    assert last(spool, loud)["failure_reason"] == "output_limit"


@linux
def test_a_timeout_ends_the_whole_tree(spool):
    once = ("--max-retries", "0", "--timeout")
    deaf = spool.add(*once, "1", "-c", "sh -c \"trap '' TERM; exec sleep 312\" & wait")
    away = spool.add(*once, "0.5", "-c", "setsid sleep 314 & wait")
    no_token = spool.add(*once, "0.5", "-c", "env -i setsid sleep 314 >/dev/null 2>&1 & wait")
    stopped = spool.add(*once, "0.5", "-c", "kill -STOP $$; sleep 314")
    whole = spool.add(*once, "0.5", "--", sys.executable, "-c", "import time; time.sleep(300)")
    began = time.monotonic()
    spool.work("-j", "5", "--grace", "0.5", check=0)
    assert time.monotonic() - began < 20
    for job in (deaf, away, no_token, stopped, whole):
        seconds = "1" if job == deaf else "0.5"
        attempt = last(spool, job)
        assert (attempt["state"], attempt["failure_reason"]) == ("timed_out", "timeout")
        assert attempt["error"] == f"timed out after {seconds}s"
        assert story(spool, job)[-2:] == [("timed_out", f"timed out after {seconds}s"), ("dead", None)]
        assert attempt["finished_at"] - attempt["started_at"] >= float(seconds)
    assert "--timeout" in spool.run("feedback", str(deaf), check=0).text


@linux
def test_a_command_may_end_in_its_own_way_when_its_time_is_up(spool):
    script = "trap 'echo bye; exit 0' TERM; echo up; sleep 314 & wait"
    job = spool.add("--max-retries", "0", "--timeout", "0.5", "-c", script)
    # Stopped until there is a trap: the time runs from the start of the command.
    worker = held(spool, "--drain", "--grace", "20")
    started(spool, job, b"up\n")
    worker.send_signal(signal.SIGCONT)
    assert worker.wait(40) == 0
    attempt = last(spool, job)
    assert (attempt["state"], attempt["failure_reason"]) == ("timed_out", "timeout")
    assert (attempt["exit_code"], printed(spool, job)) == (0, b"up\nbye\n")
    assert story(spool, job)[-2:] == [("timed_out", "timed out after 0.5s"), ("dead", None)]


# --- what an end means ------------------------------------------------------------------------------------


def test_the_end_of_a_command_is_told_by_code_signal_reason_and_text(spool):
    scripts = {
        "exit 0": (0, None, None, None),
        "exit 1": (1, None, "exit 1", "process_exit"),
        "exit 255": (255, None, "exit 255", "process_exit"),
        "kill -9 $$": (-9, "SIGKILL", "signal SIGKILL", "process_exit"),
        "kill -TERM $$": (-15, "SIGTERM", "signal SIGTERM", "process_exit"),
        "kill -ABRT $$": (-6, "SIGABRT", "signal SIGABRT", "process_exit"),
        "kill -USR1 $$": (-10, "SIGUSR1", "signal SIGUSR1", "process_exit"),
    }
    jobs = {script: spool.add("--max-retries", "0", "-c", script) for script in scripts}
    spool.work("-j", "7", check=0)
    for script, (code, name, error, reason) in scripts.items():
        attempt, job = last(spool, jobs[script]), spool.show(jobs[script])["job"]
        assert (attempt["exit_code"], attempt["signal"], attempt["error"], attempt["failure_reason"]) == (
            code, name, error, reason,
        ), script  # fmt: skip
        assert (job["last_exit_code"], job["last_signal"], job["last_error"]) == (code, name, error)
        assert job["last_failure_reason"] == reason
        assert (job["state"], attempt["state"]) == (("dead", "failed") if code else ("done", "succeeded"))
        assert job["attempts"] == (1 if code else 0)
        assert job["crashes"] == 0
        ends = [("failed", error), ("dead", None)] if code else [("succeeded", None)]
        assert story(spool, jobs[script]) == [("added", None), ("claimed", None), *ends]
    assert "OOM killer" in spool.run("feedback", str(jobs["kill -9 $$"]), check=0).text


def test_retries_count_attempts_and_end_in_done_or_dead(spool):
    once = spool.add("--backoff-base", "0.05", "-c", "test -e tried || { touch tried; exit 7; }")
    never = spool.add("--max-retries", "2", "--backoff-base", "0.05", "--backoff-max", "0.06", "-c", "exit 7")
    done = spool.work("--worker-id", "me", check=0).data
    assert done == {"drained": True, "executed": 5, "succeeded": 1, "failed": 4, "dead": 1, "unsettled": []}
    first, second = spool.show(once), spool.show(never)
    assert [a["attempt_no"] for a in second["attempts"]] == [1, 2, 3]
    assert {a["worker_id"] for a in second["attempts"]} == {"me"}
    assert (first["job"]["state"], first["job"]["attempts"]) == ("done", 1)
    assert (first["job"]["last_failure_reason"], first["job"]["last_error"]) == (None, None)
    assert (second["job"]["state"], second["job"]["attempts"], second["job"]["crashes"]) == ("dead", 3, 0)
    assert second["job"]["finished_at"] == second["attempts"][-1]["finished_at"]
    assert told(spool, never) == ["added", *["claimed", "failed"] * 3, "dead"]
    assert {e["worker_id"] for e in second["events"][1:]} == {"me"}
    starts = [(a["started_at"], a["finished_at"]) for a in second["attempts"]]
    assert starts[1][0] - starts[0][1] >= 0.05 - 0.0011
    assert starts[2][0] - starts[1][1] >= 0.06 - 0.0011
    spool.run("retry", str(never), check=0)
    spool.work("--once", check=0)
    again = spool.show(never)
    assert again["attempts"][-1]["attempt_no"] == 4
    assert (again["job"]["state"], again["job"]["attempts"]) == ("queued", 1)


def test_backoff_follows_the_stored_policy_and_its_time_is_absolute(spool):
    policy = ("--backoff-base", "100", "--backoff-factor", "3", "--backoff-max", "250")
    plain = spool.add(*policy, "--", "false")
    drawn = [spool.add(*policy, "--backoff-jitter", "0.5", "--", "false") for _ in range(8)]
    for n, wait in ((1, 100), (2, 250), (3, 250)):
        spool.work("--idle-timeout", "0", check=0)
        for job in (plain, *drawn):
            shown = spool.show(job)
            waits = shown["job"]["next_run_at"] - shown["attempts"][-1]["finished_at"]
            least = wait if job == plain else wait / 2
            assert least - 0.0011 <= waits <= wait + 0.0011
            assert (shown["job"]["state"], shown["job"]["attempts"]) == ("queued", n)
            assert shown["job"]["last_failure_reason"] == "process_exit"
            spool.run("retry", str(job), "--now", check=0)
    times = {spool.show(job)["attempts"][-1]["finished_at"] for job in drawn}
    assert times


FINITE = {"allow_nan": False, "allow_infinity": False}


def formula(n, base, factor):
    """base * factor ** (n - 1): exact for a small n, to fifty digits for one of any size."""
    if n <= 100 or not base:
        return Fraction(base) * Fraction(factor) ** (n - 1 if base else 0)
    with localcontext(Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])):
        wide = Decimal(base) * Decimal(factor) ** (n - 1)
    return Fraction(wide) if wide < 10**400 else Fraction(10**400)


@given(
    n=st.one_of(st.integers(1, 300), st.integers(1, 2**63)),
    base=st.one_of(st.floats(0, 31_536_000_000.0, **FINITE), st.integers(0, 31_536_000_000)),
    factor=st.one_of(st.floats(1, 1000, **FINITE), st.integers(1, 1000)),
    most=st.one_of(st.floats(0, 31_536_000_000.0, **FINITE), st.integers(0, 31_536_000_000)),
    jitter=st.floats(0, 1),
    draw=st.floats(0, 1, exclude_max=True),
)
@settings(max_examples=500, deadline=None)
def test_backoff_is_the_formula_computed_exactly(n, base, factor, most, jitter, draw):
    got = Fraction(delay(n, base, factor, most, jitter, draw))
    longest = min(Fraction(most), formula(n, base, factor))
    slack = longest / 10**6 + Fraction(1, 10**320)
    assert longest * (1 - Fraction(jitter)) - slack <= got <= longest + slack
    assert 0 <= got <= most


def test_backoff_of_extremes_is_the_cap_at_once():
    assert delay(1_000_000, 1, 10, 60, 0, 0) == 60
    assert delay(1_000_000, 1.0, 10.0, 300.0, 0.0, 0.0) == 300.0
    assert delay(2**63, 5e-324, 1000, 31_536_000_000, 0, 0) == 31_536_000_000
    assert delay(2**63, 1e-300, 1.0000001, 1.0, 0, 0) == 1.0
    assert delay(2**63, 2, 1, 60, 0, 0) == 2
    assert delay(1, 100, 2, 60, 0, 0) == 60
    assert delay(5, 0, 2, 60, 0, 0) == delay(5, 2, 2, 0, 0, 0) == 0
    assert delay(3, 2, 2, 60, 1, 0.5) == 4
    assert delay(1, 2, 2, 60, 0, 0.9) == 2
