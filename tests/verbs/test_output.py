"""output: previews, text and raw bytes of what real attempts wrote."""

from __future__ import annotations

import os
import sys
import time
import tty

import pytest
from support import clean_env, finish, wait_until

STREAMS = ("stdout", "stderr")


def done(spool, script, *flags):
    """A job that has run `script`."""
    job = spool.add("--max-retries", "0", *flags, "-c", script)
    spool.work(check=0)
    return job


def file(spool, job, stream="stdout", attempt=1):
    return spool.output / str(job) / str(attempt) / stream


def streams(spool, job, *flags):
    return spool.json("output", str(job), *flags)["streams"]


# --- JSON -------------------------------------------------------------------------------------------------


def test_the_answer_names_the_attempt_and_both_files(spool):
    job = done(spool, "echo out; echo err >&2")
    assert spool.json("output", str(job)) == {
        "attempt_no": 1,
        "attempt_state": "succeeded",
        "attempts_total": 1,
        "job_id": job,
        "streams": {
            name: {
                "path": str(file(spool, job, name)),
                "preview": f"{text}\n",
                "preview_truncated": False,
                "size_bytes": 4,
            }
            for name, text in (("stdout", "out"), ("stderr", "err"))
        },
    }
    assert list(streams(spool, job, "--stream", "stderr")) == ["stderr"]


def test_an_earlier_attempt_is_read_by_its_number(spool):
    job = spool.add("--backoff-base", "0s", "--max-retries", "1", "-c", "echo $SPOOLCTL_ATTEMPT; exit 3")
    spool.work(check=0)
    latest = spool.json("output", str(job))
    assert (latest["attempt_no"], latest["attempts_total"], latest["attempt_state"]) == (2, 2, "failed")
    assert streams(spool, job)["stdout"]["preview"] == "2\n"
    assert streams(spool, job, "--attempt", "1")["stdout"]["preview"] == "1\n"
    answer = spool.run("output", str(job), "--attempt", "3", "--json", check=1)
    assert (answer.code, answer.error["remediation"]) == ("NOT_FOUND", f"spoolctl show {job}")


def test_a_job_that_never_ran_is_no_error(spool):
    job = spool.add()
    answer = spool.run("output", str(job), "--json", check=0)
    assert (answer.data, answer.warnings) == ({"attempts": []}, ["NO_ATTEMPTS_YET"])
    answer = spool.run("output", str(job), check=0)
    assert (answer.out, answer.warnings) == (b"", ["NO_ATTEMPTS_YET"])
    assert spool.run("output", str(job), "--attempt", "1", "--json", check=1).code == "NOT_FOUND"
    assert spool.run("output", "99", "--json", check=1).error["detail"] == {"missing": [99]}


def test_a_file_that_is_gone_is_told_from_an_empty_one(spool):
    job = done(spool, "echo x >&2")
    file(spool, job, "stderr").unlink()
    both = streams(spool, job)
    assert (both["stdout"]["preview"], both["stdout"]["size_bytes"]) == ("", 0)
    assert (both["stderr"]["preview"], both["stderr"]["size_bytes"]) == (None, None)
    answer = spool.run("output", str(job), check=0)
    assert answer.out == b""
    path = file(spool, job, "stderr")
    assert answer.err == f"spoolctl: no stderr of job {job} attempt 1: {path} is not there or not readable\n"
    answer = spool.run("output", str(job), "--raw", "--stream", "stderr", check=1)
    assert (answer.out, answer.code) == (b"", "NOT_FOUND")
    assert spool.run("output", str(job), "--raw", "--stream", "stdout", check=0).out == b""


def test_what_stands_in_the_place_of_a_file_is_not_waited_for(spool):
    job = done(spool, "true")
    for name, make in (("stdout", os.mkfifo), ("stderr", os.mkdir)):
        file(spool, job, name).unlink()
        make(file(spool, job, name))
    assert [stream["preview"] for stream in streams(spool, job).values()] == [None, None]


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("char", ["é", "€", "😀"])
def test_a_cut_drops_the_part_of_a_character_and_no_more(spool, char, before):
    job = done(spool, "true")
    size = len(char.encode())
    split = 0 < before < size
    text = "a" * (4096 - before) + char + "b" * 100
    file(spool, job).write_bytes(text.encode())
    head = streams(spool, job)["stdout"]
    assert head["preview"] == "a" * (4096 - before) + char * (before >= size) + "b" * max(0, before - size)
    assert (head["preview_truncated"], head["size_bytes"]) == (True, len(text.encode()))

    file(spool, job).write_bytes(("b" * 100 + char + "a" * 500).encode())
    tail = streams(spool, job, "--tail-bytes", str(500 + before))["stdout"]
    expected = "b" * max(0, before - size) + char * (before >= size) + "a" * 500
    assert tail["preview"] == expected
    shown = spool.run("output", str(job), "--tail-bytes", str(500 + before), "--stream", "stdout", check=0)
    assert shown.text == expected
    raw = spool.run(
        "output", str(job), "--tail-bytes", str(500 + before), "--stream", "stdout", "--raw", check=0
    )
    assert len(raw.out) == 500 + before
    assert raw.out.endswith(expected.encode())
    assert (raw.out != expected.encode()) is split


def test_bytes_that_are_no_text_are_exact_in_raw_only(spool):
    data = bytes(range(256)) * 3 + b"\xf0\x9f\x98"
    job = done(spool, "true")
    file(spool, job).write_bytes(data)
    assert streams(spool, job)["stdout"]["preview"] == data.decode("utf-8", "replace")
    assert (
        spool.run("output", str(job), "--stream", "stdout", check=0).out
        == data.decode("utf-8", "replace").encode()
    )
    assert spool.run("output", str(job), "--stream", "stdout", "--raw", check=0).out == data
    # No cut of ours: what a continuation byte is without its head, at the start of a tail.
    assert streams(spool, job, "--tail-bytes", "2")["stdout"]["preview"] == "\ufffd\ufffd"


# --- text -------------------------------------------------------------------------------------------------


def test_text_heads_the_streams_only_when_there_is_something_in_both(spool):
    both = done(spool, "printf out; echo err >&2")
    one = done(spool, "echo err >&2")
    none = done(spool, "true")
    assert spool.run("output", str(both), check=0).text == (
        f"=== job {both} attempt 1 stdout ===\nout\n=== job {both} attempt 1 stderr ===\nerr\n"
    )
    assert spool.run("output", str(both), "--stream", "stdout", check=0).out == b"out"
    assert spool.run("output", str(one), check=0).out == b"err\n"
    assert spool.run("output", str(none), check=0).out == b""


def test_control_characters_reach_a_pipe_and_no_terminal(spool):
    job = done(spool, r"printf '\033[31mred\033[0m\tx\r\n\007'")
    assert spool.run("output", str(job), check=0).out == b"\x1b[31mred\x1b[0m\tx\r\n\x07"
    assert spool.run("output", str(job), check=0, tty=True).text == "\\x1b[31mred\\x1b[0m\tx\\r\n\\x07"
    assert spool.run("output", str(job), "--raw", "--stream", "stdout", check=0, tty=True).out.startswith(
        b"\x1b[31m"
    )


def test_raw_needs_one_stream_and_no_json(spool):
    job = done(spool, "true")
    for flags in (["--raw"], ["--raw", "--stream", "both"], ["--raw", "--stream", "stdout", "--json"]):
        assert spool.run("output", str(job), *flags, check=1).code == "INVALID_INPUT"
    for value in ("0", "1048577", "-1", "1.5"):
        answer = spool.run("output", str(job), "--tail-bytes", value, "--json", check=1)
        assert answer.error["detail"]["flag"] == "--tail-bytes"


def test_the_output_of_a_running_job_is_there_while_it_runs(spool):
    job = spool.add("-c", "echo early; while [ ! -e go ]; do sleep 0.05; done")
    worker = spool.start("work", "--once", "--json")
    spool.wait_for(job, "running")
    wait_until(lambda: spool.run("output", str(job), check=0).out == b"early\n")
    assert spool.json("output", str(job))["attempt_state"] == "running"
    (spool.path / "go").touch()
    finish(worker, 30, check=0)


def test_memory_is_bounded_for_300_megabytes(spool):
    job = done(spool, "true")
    small = done(spool, "echo small")
    size = 300 * 1024 * 1024
    with file(spool, job).open("r+b") as sparse:
        sparse.truncate(size)
        sparse.seek(size - 4)
        sparse.write(b"end\n")
    base = peak(spool, "output", str(small), "--json")
    for flags in (
        ["output", "--json"],
        ["output", "--json", "--tail-bytes", "65536"],
        ["output", "--stream", "stdout"],
        ["output", "--stream", "stdout", "--raw"],
        ["feedback", "--json"],
    ):
        used = peak(spool, flags[0], str(job), *flags[1:])
        assert used - base < 8 * 1024, f"{flags}: {used} KiB against {base} KiB"


def test_the_longest_tail_of_a_gigabyte_costs_little_more_than_the_answer(spool):
    """The worst that a tail can hold: each byte takes six in JSON."""
    job = done(spool, "true")
    with file(spool, job).open("r+b") as sparse:
        sparse.truncate(1024**3)
    longest = 1_048_576
    flags = ["--json", "--stream", "stdout", "--tail-bytes"]
    base = peak(spool, "output", str(job), *flags, "1")
    used = peak(spool, "output", str(job), *flags, str(longest))
    assert used - base < 16 * 1024, f"{used} KiB against {base} KiB"


# --- raw bytes, wherever stdout leads ---------------------------------------------------------------------

RAW = ("--stream", "stdout", "--raw")
LENGTH = 3_000_000  # more than any pipe holds


def patterned(spool):
    """A job with LENGTH bytes of output, and these."""
    job = done(spool, "true")
    data = bytes(range(251)) * (LENGTH // 251 + 1)
    file(spool, job).write_bytes(data[:LENGTH])
    return job, data[:LENGTH]


def test_raw_goes_to_the_end_of_a_file_that_is_appended_to(spool):
    job, data = patterned(spool)
    place = spool.path / "kept"
    place.write_bytes(b"before\n")
    with place.open("ab") as kept:
        finish(spool.start("output", str(job), *RAW, stdout=kept), check=0)
    assert place.read_bytes() == b"before\n" + data


def test_raw_waits_for_a_slow_reader_of_a_pipe_that_does_not_block(spool):
    job, data = patterned(spool)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    call = spool.start("output", str(job), *RAW, stdout=theirs)
    os.close(theirs)
    with open(ours, "rb") as reader:
        time.sleep(0.3)  # the pipe is full by then; and if it is not yet, nothing is shown wrong
        assert reader.read() == data
    finish(call, check=0)


@pytest.mark.parametrize("flags", [RAW, ("--stream", "stdout"), ("--json", "--tail-bytes", "1048576")])
def test_a_reader_that_goes_away_ends_it_quietly(spool, flags):
    job, _ = patterned(spool)
    call = spool.start("output", str(job), *flags)
    assert call.stdout.read(1)
    call.stdout.close()
    assert (call.wait(60), call.stderr.read()) == (0, b"")


def test_raw_to_a_terminal_is_exact_too(spool):
    job = done(spool, r"printf '\033[31mred\007\377'")
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    finish(spool.start("output", str(job), *RAW, stdout=theirs), check=0)
    assert os.read(ours, 100) == b"\x1b[31mred\x07\xff"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("change", ["grows", "is cut short"])
def test_raw_of_a_file_that_changes_meanwhile_comes_to_its_end(spool, change):
    """As long as it was at first, or as far as it still goes."""
    job, data = patterned(spool)
    call = spool.start("output", str(job), *RAW)
    got = call.stdout.read(1000)
    with file(spool, job).open("r+b") as output:
        if change == "grows":
            output.seek(0, os.SEEK_END)
            output.write(b"more" * 1000)
        else:
            output.truncate(2000)
    got += call.stdout.read()
    assert call.wait(60) == 0
    assert data.startswith(got)
    assert got == data if change == "grows" else 2000 <= len(got) < LENGTH


def peak(spool, *tokens):
    """The largest resident size of a call in KiB; its output is thrown away."""
    with open(os.devnull, "wb") as sink:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "spoolctl", tokens[0], "--db", str(spool.db), *tokens[1:]],
            clean_env(),
            file_actions=[(os.POSIX_SPAWN_DUP2, sink.fileno(), 1)],
        )
        _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_maxrss // (1024 if sys.platform == "darwin" else 1)
