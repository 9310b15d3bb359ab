"""add --from: one job a line, all or nothing, without holding anybody up."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import signal
import subprocess
import time

import pytest
from support import clean_env, finish, wait_until

from spoolctl import clock
from spoolctl.cli import Context
from spoolctl.emit import FdSink
from spoolctl.errors import SpoolctlError
from spoolctl.store import bulk as store
from spoolctl.verbs import _job, _lines, _rows


def bulk(spool, lines, *flags, **options):
    """`add --from -` of bytes, of text, or of a list whose dicts become JSON lines."""
    if isinstance(lines, list):
        lines = "".join((json.dumps(item) if isinstance(item, dict) else item) + "\n" for item in lines)
    feed = lines.encode() if isinstance(lines, str) else lines
    return spool.run("add", "--json", "--from", "-", *flags, stdin=feed, **options)


def stored(spool, *names):
    """The named fields of all jobs, oldest first."""
    jobs = [spool.show(job["id"])["job"] for job in spool.json("list", "--limit", "0")["jobs"]]
    return [[job[name] for name in names] for job in reversed(jobs)]


def shells(spool):
    return [argv[-1] for (argv,) in stored(spool, "argv")]


# --- what lines are ---------------------------------------------------------------------------------------

MIXED = b"""\
# a comment, a blank line, blanks before and behind
gzip -k a

   echo "two  blanks" | wc -c \t
  # another
{"argv": ["printf", "%s", "a b"], "priority": 5, "queue": "x"}
  {"command": "exit 3", "max_retries": 0, "tags": {"run": "1"}, "note": null}
echo last line has no end"""


def test_lines_are_counted_and_read_alike_however_far_into_the_stream(spool):
    """It is read in blocks: what earlier ones skip counts, and only the start of the first has a mark."""
    mark = b"\xef\xbb\xbf"
    lines = mark + b"# a comment\n\n" + (mark + b"echo\n# another\n") * 20_000
    (spool.path / "lines").write_bytes(lines)
    found = [line for some in _lines.read(str(spool.path / "lines"), 0) for line in some]
    assert found == [(n, "\ufeffecho") for n in range(3, 40_003, 2)]
    assert bulk(spool, lines + b'{"argv": []}\n').error["detail"] == {"line": 40_003}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_shell_lines_json_lines_comments_and_blanks(spool, end, mark):
    answer = bulk(spool, mark + MIXED.replace(b"\n", end), check=0)
    assert answer.data == {
        "added": 5,
        "deduplicated": 0,
        "first_id": 1,
        "last_id": 5,
        "job_ids": [1, 2, 3, 4, 5],
    }
    assert answer.commands == [
        "spoolctl work --drain",
        "spoolctl work --drain --queue x",
        "spoolctl wait 1-5",
    ]
    assert [(w["code"], w["message"]) for w in answer.json["warnings"][1:]] == [
        ("NO_WORKER", "spoolctl work"),
        ("NO_WORKER", "spoolctl work --queue x"),
    ]
    assert stored(spool, "argv", "priority", "queue", "max_retries", "tags") == [
        [["sh", "-c", "gzip -k a"], 0, "default", 3, {}],
        [["sh", "-c", 'echo "two  blanks" | wc -c \t'], 0, "default", 3, {}],
        [["printf", "%s", "a b"], 5, "x", 3, {}],
        [["sh", "-c", "exit 3"], 0, "default", 0, {"run": "1"}],
        [["sh", "-c", "echo last line has no end"], 0, "default", 3, {}],
    ]


def test_a_trailing_escaped_blank_belongs_to_the_command(spool):
    bulk(spool, b"printf '%s|' a\\ \r\n", check=0)
    spool.work(check=0)
    assert spool.run("output", "1", check=0).out == b"a |"


def test_bytes_that_are_not_utf8_run_exactly(spool):
    json_line = b'{"argv": ["printf", "%s", "c\xfed"], "env": {"E": "\xfd"}}\n'
    bulk(spool, b"printf 'a\xffb'\n" + json_line, check=0)
    assert shells(spool) == ["printf 'a\ufffdb'", "c\ufffdd"]
    spool.work(check=0)
    outputs = [spool.run("output", n, "--raw", "--stream", "stdout", check=0).out for n in ("1", "2")]
    assert outputs == [b"a\xffb", b"c\xfed"]


def test_every_flag_has_its_key(spool):
    full = {
        "argv": ["true"],
        "at": "2100-01-01T00:00Z",
        "priority": -3,
        "queue": "lane",
        "key": " k ",
        "key_scope": "kept",
        "timeout": "2h",
        "max_retries": 7,
        "max_crashes": None,
        "backoff_base": 0.5,
        "backoff_factor": 3,
        "backoff_max": "5m",
        "backoff_jitter": 0.25,
        "cwd": "/",
        "env": {"A": "1", "COPIED": None},
        "tags": {"a": "b", "c": ""},
        "note": "é\n",
        "max_output": "1M",
        "keep_children": True,
    }
    bulk(spool, [full], env={"COPIED": "mine"}, check=0)
    job = spool.show(1)["job"]
    expected = {
        "next_run_at": 4102444800,
        "priority": -3,
        "queue": "lane",
        "idempotency_key": "k",
        "timeout_seconds": 7200,
        "max_retries": 7,
        "max_crashes": None,
        "backoff": {"base": 0.5, "factor": 3, "max": 300, "jitter": 0.25},
        "cwd": "/",
        "env": {"A": "1", "COPIED": "mine"},
        "tags": {"a": "b", "c": ""},
        "note": "é\n",
        "max_output_bytes": 1048576,
        "keep_children": True,
    }
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ({"env": ["A=1", "A=2", "B"]}, "env", {"A": "2", "B": "mine"}),
        ({"env": "A=x=y"}, "env", {"A": "x=y"}),
        ({"tag": ["a=1", "b="]}, "tags", {"a": "1", "b": ""}),
        ({"tags": "a=1"}, "tags", {"a": "1"}),
        ({"timeout": "none"}, "timeout_seconds", None),
        ({"timeout": None}, "timeout_seconds", None),
        ({"timeout": 0.5}, "timeout_seconds", 0.5),
        ({"timeout": 60.0}, "timeout_seconds", 60),
        ({"priority": "12"}, "priority", 12),
        ({"max_output": 5}, "max_output_bytes", 5),
        ({"priority": None, "tags": None, "env": None, "keep_children": None, "key": None}, "priority", 0),
        ({"note": ""}, "note", ""),
    ],
    ids=str,
)
def test_values_are_taken_in_their_natural_shapes(spool, line, field, value):
    bulk(spool, [{"argv": ["true"], **line}], env={"B": "mine"}, check=0)
    assert spool.show(1)["job"][field] == value


def test_the_command_lines_flags_are_the_defaults(spool):
    words = "--priority 2 -q x --tag run=1 --tag kind=b --env A=1 --env B=1 --after 1h --note n --cwd /"
    flags = (*words.split(), "--keep-children")
    lines = [
        "true",
        {"argv": ["a"], "priority": 3, "queue": "y", "at": 5, "cwd": "/tmp"}
        | {"tags": {"run": "2"}, "env": {"A": "2"}},
        {"argv": ["b"], "keep_children": False, "note": None, "after": None, "at": None},
    ]
    now = time.time()
    bulk(spool, lines, *flags, check=0)
    found = stored(spool, "priority", "queue", "tags", "env", "note", "keep_children", "cwd")
    tags, env = {"run": "1", "kind": "b"}, {"A": "1", "B": "1"}
    assert found == [
        [2, "x", tags, env, "n", True, "/"],
        [3, "y", tags | {"run": "2"}, env | {"A": "2"}, "n", True, "/tmp"],
        [2, "x", tags, env, None, False, "/"],
    ]
    due = [at - now for (at,) in stored(spool, "next_run_at")]
    assert due[0] == pytest.approx(3600, abs=60)
    assert due[1] < 60
    assert due[2] < 60  # a null takes a default back


def test_a_file_is_read_as_standard_input_is(spool):
    (spool.path / "jobs.txt").write_text("echo a\necho b\n")
    assert spool.json("add", "--from", "jobs.txt")["added"] == 2
    assert spool.run("add", "--from=jobs.txt", check=0).text == "added 2 jobs: 3 to 4, 0 were there already\n"
    assert shells(spool) == ["echo a", "echo b"] * 2


@pytest.mark.parametrize("feed", [b"", b"\n\n", b"# nothing\n   \n\r\n", b"\xef\xbb\xbf\n"])
def test_nothing_to_add_is_a_success(spool, feed):
    answer = bulk(spool, feed, check=0)
    assert answer.data == {"added": 0, "deduplicated": 0, "first_id": None, "last_id": None, "job_ids": []}
    assert answer.commands == []


def test_ids_are_listed_up_to_a_thousand_and_contiguous(spool):
    for count in (1000, 1001):
        first = spool.add() + 1
        data = bulk(spool, b"true\n" * count, "--tag", f"n={count}", check=0).data
        assert (data["added"], data["first_id"], data["last_id"]) == (count, first, first + count - 1)
        assert data["job_ids"] == (list(range(first, first + count)) if count == 1000 else None)
        found = spool.json("list", "--limit", "0", "--tag", f"n={count}")
        assert found["count"] == 1000
    assert spool.json("status")["counts"]["queued"] == 2003
    assert spool.json("events", "--limit", "0")["count"] == 2003


# --- what is refused --------------------------------------------------------------------------------------

BAD = {
    "a command with a NUL": b"echo a\0b",
    "a word with a NUL": rb'{"argv": ["a\u0000b"]}',
    "a shell group": b"{ echo a; echo b; }",
    "half of a JSON object": b'{"argv": ["true"]',
    "two JSON objects": b'{"argv": ["true"]} {"argv": ["true"]}',
    "NaN": b'{"argv": ["true"], "timeout": NaN}',
    "an infinite number": b'{"argv": ["true"], "timeout": 1e999}',
    "a number without end": b'{"argv": ["true"], "priority": ' + b"9" * 5000 + b"}",
    "deep nesting": b'{"argv": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "no command": b'{"queue": "x"}',
    "an empty object": b"{}",
    "two commands": b'{"argv": ["a"], "command": "b"}',
    "an empty command": b'{"command": ""}',
    "a command that is a list": b'{"command": ["a"]}',
    "an argv that is text": b'{"argv": "true"}',
    "an empty argv": b'{"argv": []}',
    "an empty first word": b'{"argv": ["", "a"]}',
    "a word that is a number": b'{"argv": ["sleep", 5]}',
    "an unknown key": b'{"argv": ["true"], "colour": "red"}',
    "a key with a dash": b'{"argv": ["true"], "max-retries": 1}',
    "a flag of the call": b'{"argv": ["true"], "json": true}',
    "a nested source": b'{"from": "x"}',
    "after and at": b'{"argv": ["true"], "after": 1, "at": 1}',
    "tag and tags": b'{"argv": ["true"], "tag": "a=1", "tags": {"b": "2"}}',
    "a boolean priority": b'{"argv": ["true"], "priority": true}',
    "a broken priority": b'{"argv": ["true"], "priority": 1.5}',
    "a priority out of range": b'{"argv": ["true"], "priority": 2147483648}',
    "a negative time": b'{"argv": ["true"], "after": -1}',
    "no time at all": b'{"argv": ["true"], "timeout": 0}',
    "a lane with a blank": b'{"argv": ["true"], "queue": "a b"}',
    "an empty key": b'{"argv": ["true"], "key": " "}',
    "a key that is not UTF-8": b'{"argv": ["true"], "key": "\xff"}',
    "a scope of its own": b'{"argv": ["true"], "key": "k", "key_scope": "ever"}',
    "a tag that is a number": b'{"argv": ["true"], "tags": {"a": 1}}',
    "tags that are a number": b'{"argv": ["true"], "tags": 1}',
    "a tag twice": b'{"argv": ["true"], "tags": ["a=1", "a=2"]}',
    "a variable that is unset": b'{"argv": ["true"], "env": {"NOT_SET_HERE": null}}',
    "a variable of ours": b'{"argv": ["true"], "env": {"SPOOLCTL_JOB_ID": "1"}}',
    "a switch that is text": b'{"argv": ["true"], "keep_children": "yes"}',
    "half a character in a word": rb'{"argv": ["echo", "\ud83d"]}',
    "half a character in capitals": rb'{"argv": ["echo", "\uD83D"]}',
    "half a character in a command": rb'{"command": "echo \ud83d"}',
    "half a character in a name": rb'{"argv": ["true"], "env": {"\ud83d": "1"}}',
    "half a character in a value": rb'{"argv": ["true"], "env": {"A": "\ud83d"}}',
    "half a character in a path": rb'{"argv": ["true"], "cwd": "\ud83d"}',
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_named_and_nothing_is_added(spool, case):
    feed = b"true\n\n# comment\ntrue\n" + BAD[case] + b"\ntrue\n" + BAD[case] + b"\n"
    for there in (False, True):
        answer = bulk(spool, feed, check=1)
        assert answer.code == "INVALID_INPUT"
        assert answer.error["detail"] == {"line": 5}
        assert answer.error["message"].startswith("--from: line 5: ")
        assert len(answer.error["message"]) < 1000
        if not there:
            assert spool.files() == []
            spool.add()
    assert spool.json("events")["count"] == 1


def test_an_unknown_key_suggests_the_nearest(spool):
    answer = bulk(spool, [{"argv": ["true"], "priorty": 1}], check=1)
    assert answer.error["did_you_mean"] == "priority"


@pytest.mark.parametrize("flags", [("--priority", "x"), ("--cwd", ""), ("--env", "NOT_SET_HERE")])
def test_a_bad_default_is_refused_before_anything_is_read(spool, flags):
    assert bulk(spool, b"true\n", *flags, check=1).error["detail"]["flag"] == flags[0]
    assert spool.files() == []


def test_a_file_that_cannot_be_read_is_refused(spool):
    (spool.path / "folder").mkdir()
    (spool.path / "secret").write_text("true\n")
    for name in ("missing", "folder", "folder/none", "secret/none"):
        answer = spool.run("add", "--json", "--from", name, check=1)
        assert (answer.code, answer.error["detail"]) == ("INVALID_INPUT", {"flag": "--from", "value": name})
    assert spool.files() == ["folder", "secret"]


def test_a_line_without_end_is_refused_in_bounded_memory(spool):
    answer = spool.cli("add", "--json", "--from", "/dev/zero", check=1)
    assert answer.error["detail"] == {"line": 1}
    assert spool.files() == []


def test_more_than_two_hundred_thousand_are_refused(spool):
    answer = bulk(spool, b"true\n" * 200_001, check=1)
    assert (answer.code, answer.error["detail"]) == ("INVALID_INPUT", {"line": 200_001})
    assert spool.files() == []
    data = bulk(spool, b"# comment\n" + b"true\n" * 200_000, "--after", "1h", check=0).data
    assert data == {
        "added": 200_000,
        "deduplicated": 0,
        "first_id": 1,
        "last_id": 200_000,
        "job_ids": None,
    }


# --- keys -------------------------------------------------------------------------------------------------


def keyed(key, command="true", **more):
    return {"command": command, "key": key, **more}


def test_keys_that_are_there_are_deduplicated_and_ids_stay_contiguous(spool):
    old = spool.add("--key", "b", "-c", "true")
    lines = [keyed("a"), keyed("b"), "echo", keyed("c"), keyed("a"), keyed("b", queue="x"), keyed("c")]
    answer = bulk(spool, lines, check=0)
    assert answer.data == {
        "added": 4,
        "deduplicated": 3,
        "first_id": 2,
        "last_id": 5,
        "job_ids": [2, old, 3, 4, 2, 5, 4],
    }
    assert answer.warnings == ["NO_WORKER", "NO_WORKER"]
    again = bulk(spool, [line for line in lines if line != "echo"], check=0)
    assert again.data == {
        "added": 0,
        "deduplicated": 6,
        "first_id": None,
        "last_id": None,
        "job_ids": [2, old, 4, 2, 5, 4],
    }
    assert (again.warnings, again.commands) == ([], [])
    assert spool.json("events")["count"] == 5


def test_the_same_batch_twice_without_a_database_and_with_tags(spool):
    lines = [keyed("k", tags={"a": "1"}), keyed("k", tags={"a": "1"}), {"argv": ["x"], "tags": {"b": "2"}}]
    assert bulk(spool, lines, check=0).data["job_ids"] == [1, 1, 2]
    assert stored(spool, "tags") == [[{"a": "1"}], [{"b": "2"}]]
    assert spool.json("list", "--tag", "b=2")["jobs"][0]["id"] == 2


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"command": "false"}, ["argv"]),
        ({"env": {"SECRET": "swordfish"}, "priority": 1}, ["env", "priority"]),
        ({"cwd": "/", "timeout": None, "max_output": 1}, ["cwd", "timeout", "max_output"]),
        ({"max_retries": 0, "max_crashes": 0}, ["max_retries", "max_crashes"]),
        ({"keep_children": True}, ["keep_children"]),
        ({"backoff_jitter": 1}, ["backoff"]),
    ],
    ids=str,
)
def test_a_conflict_names_line_job_and_fields_and_adds_nothing(spool, change, fields):
    spool.add("true")
    old = spool.add("--key", "k", "--env", "SECRET=hunter2", "-c", "true")
    line = keyed("k") | {"env": {"SECRET": "hunter2"}} | change
    answer = bulk(spool, ["true", "", line], check=5)
    assert answer.code == "IDEMPOTENCY_CONFLICT"
    assert answer.error["detail"] == {"line": 3, "job_id": old, "fields": fields}
    assert answer.error["remediation"] == f"spoolctl show {old}"
    said = answer.out.decode() + answer.err
    assert "hunter2" not in said
    assert "swordfish" not in said
    assert spool.json("events")["count"] == 2


def test_two_lines_of_one_key_that_differ_are_a_conflict_without_a_job(spool):
    answer = bulk(spool, ["true", keyed("k"), keyed("k", env={"A": "hunter2"})], check=5)
    assert answer.error["detail"] == {"line": 3, "job_id": None, "fields": ["env"]}
    assert "line 2" in answer.error["message"]
    assert "hunter2" not in answer.out.decode() + answer.err
    assert spool.files() == []
    mixed = bulk(spool, [keyed("k"), keyed("k", key_scope="kept")], check=1)
    assert mixed.error["detail"] == {"line": 2}


@pytest.mark.parametrize(
    "change",
    [{"tags": {"a": "2"}}, {"tags": {}}, {"note": "n"}, {"after": "1h"}, {"tags": {"a": "1", "b": "2"}}],
    ids=str,
)
def test_lines_that_differ_in_tags_note_or_schedule_keep_the_job_and_warn(spool, change):
    first = keyed("k", tags={"a": "1"})
    there = bulk(spool, [first], check=0).data["job_ids"]
    answer = bulk(spool, [first, first | change], check=0)
    assert answer.data["job_ids"] == there * 2
    assert answer.warnings == ["IDEMPOTENCY_METADATA_DIFFERS"]
    assert answer.json["warnings"][0]["message"].startswith("1 ")
    answer = bulk(spool, [first | change], check=0)
    assert (answer.data["job_ids"], answer.warnings) == (there, ["IDEMPOTENCY_METADATA_DIFFERS"])
    assert bulk(spool, [first, first], check=0).warnings == []
    assert stored(spool, "tags", "note") == [[{"a": "1"}, None]]


def test_a_kept_key_matches_a_finished_job_and_an_active_one_first(spool):
    done = spool.add("--key", "k", "true")
    spool.work(check=0)
    assert bulk(spool, [keyed("k", "another", key_scope="kept")] * 2, check=0).data["job_ids"] == [done, done]
    new = bulk(spool, [keyed("k")], check=0).data["first_id"]
    spool.run("cancel", str(new), check=0)
    assert bulk(spool, [keyed("k", key_scope="kept")], check=0).data["job_ids"] == [new]
    last = bulk(spool, [keyed("k")], check=0).data["first_id"]
    assert bulk(spool, [keyed("k", key_scope="kept")], check=0).data["job_ids"] == [last]


def test_a_key_on_the_command_line_is_every_lines_key(spool):
    answer = bulk(spool, ["echo a", "echo a"], "--key", "k", check=0)
    assert answer.data["job_ids"] == [1, 1]
    assert bulk(spool, ["echo a", "echo b"], "--key", "k", check=5).error["detail"] == {
        "line": 2,
        "job_id": None,
        "fields": ["argv"],
    }


def test_many_keys_that_are_there_already_do_not_hold_the_lock(spool):
    lines = "".join(json.dumps(keyed(f"k{n}")) + "\n" for n in range(20_000)).encode()
    bulk(spool, lines, check=0)
    steps = []

    def traced(statement):
        steps.append(statement)

    real = store.sqlite3.connect

    def connect(*words, **options):
        conn = real(*words, **options)
        conn.set_trace_callback(traced)
        return conn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.sqlite3, "connect", connect)
        assert bulk(spool, lines, check=0).data["deduplicated"] == 20_000
    begin = next(i for i, s in enumerate(steps) if s.startswith("BEGIN IMMEDIATE"))
    end = next(i for i, s in enumerate(steps) if i > begin and s.startswith("COMMIT"))
    assert end - begin < 20  # so many statements while others wait, whatever the number of lines


# --- beside others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
def test_a_slow_producer_holds_nobody_up(spool, there):
    if there:
        spool.add()
    slow = spool.start("add", "--json", "--from", "-", stdin=subprocess.PIPE)
    slow.stdin.write(b"echo slow\n" * 5000)
    slow.stdin.flush()
    wait_until(lambda: reads(slow.pid), message="the producer to be waited for")
    quick = spool.cli("add", "--json", "--key", "k", "true", check=0)  # LOCKED after five seconds, else
    assert spool.json("status")["counts"]["queued"] == 1 + there
    slow.stdin.write(b'{"command": "true", "key": "other"}\n')
    slow.stdin.close()
    slow.stdin = None
    data = finish(slow, check=0).data
    assert (data["added"], data["first_id"]) == (5001, quick.data["job_id"] + 1)


def reads(pid):
    """Whether a process waits for its standard input, having read all there was."""
    with open(f"/proc/{pid}/wchan") as file:
        return "pipe" in file.read()


def test_progress_goes_to_a_terminal_only_and_is_wiped(spool):
    ours, theirs = pty.openpty()
    slow = spool.start("add", "--from", "-", stdin=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""

    def read_until(mark):
        nonlocal seen
        while mark not in seen:
            assert select.select([ours], [], [], 20)[0], seen
            seen += os.read(ours, 4096)
        seen = seen.partition(mark)[2]

    slow.stdin.write(b"# none\necho slow\necho slow\n")
    slow.stdin.flush()
    read_until(b"\r2 lines read")
    time.sleep(0.2)  # a shorter pause may be passed over
    slow.stdin.write(b"echo slow\n" * 5)
    slow.stdin.flush()
    read_until(b"\r7 lines read")
    slow.stdin.close()
    slow.stdin = None
    read_until(b"\rwriting")
    read_until(b" \r")
    out, _ = slow.communicate(timeout=20)
    os.close(ours)
    assert (slow.returncode, out) == (0, b"added 7 jobs: 1 to 7, 0 were there already\n")
    assert "read" not in spool.cli("add", "--from", "-", stdin=b"true\n", check=0).err


def test_nothing_is_written_between_the_lines_somebody_types(spool):
    ours, theirs = pty.openpty()
    call = spool.start("add", "--from", "-", stdin=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"echo typed\n\x04")
    out, _ = call.communicate(timeout=20)
    seen = b""
    while select.select([ours], [], [], 0)[0]:
        try:
            seen += os.read(ours, 4096)
        except OSError:  # how Linux says that nobody has the other end
            break
    os.close(ours)
    assert (call.returncode, out) == (0, b"added 1 job: 1, 0 were there already\n")
    assert b"echo typed" in seen
    assert b" read" not in seen
    assert b"writing" not in seen


def test_a_producer_that_is_killed_leaves_nothing(spool):
    spool.add()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        slow = spool.start("add", "--json", "--from", "-", stdin=subprocess.PIPE)
        slow.stdin.write(b"echo slow\n" * 5000)
        slow.stdin.flush()
        wait_until(lambda pid=slow.pid: reads(pid))
        slow.send_signal(number)
        assert slow.wait(20) == -number
        assert slow.stdout.read() == b""
    assert spool.json("status")["counts"]["queued"] == 1
    assert spool.add() == 2


def test_batches_at_once_are_each_contiguous_and_share_keys(spool):
    lines = "".join(f"echo {n}\n" for n in range(300)) + json.dumps(keyed("shared")) + "\n"
    (spool.path / "lines").write_text(lines)
    calls = [spool.start("add", "--json", "--from", "lines") for _ in range(8)]
    data = [finish(call, check=0).data for call in calls]
    assert sorted(one["added"] for one in data) == [300] * 7 + [301]
    for one in data:
        fresh = one["job_ids"][:300]
        assert fresh == list(range(fresh[0], fresh[0] + 300))
    assert len({one["job_ids"][300] for one in data}) == 1
    assert spool.json("status")["counts"]["queued"] == 2401


# --- anything at all --------------------------------------------------------------------------------------

KEYS = (
    "argv command payload after at priority queue key key_scope timeout max_retries max_crashes backoff_base"
    " backoff_factor backoff_max backoff_jitter cwd env tag tags note max_output keep_children from json db"
    " help c nonsense"
).split() + [""]
WORDS = (
    "true none x a=b k kept active default 1 -1 0 5m 1k 1.5 2100-01-01 / . é 1e5 nan SPOOLCTL_JOB_ID PATH"
    " = { [] null"
).split() + ["", " ", "\udcff", "\ud800", "\U0001f600", "a\0b", "a\nb", "\x7f", "x" * 5000, "9" * 400]
NUMBERS = [0, 1, -1, 2, 1.5, -0.0, 1e-9, 1e18, 1e308, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30]
NUMBERS += [float("inf"), float("nan")]


def anything(draw, depth=0):
    kind = draw.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return draw.random() < 0.5
    if kind == 2:
        return draw.choice(NUMBERS)
    if kind < 5:
        return draw.choice(WORDS)
    if kind == 5:
        return [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(WORDS): anything(draw, depth + 1) for _ in range(draw.randrange(4))}


def likely(draw, key):
    """A value that may well fit the key, so that lines get past the first check."""
    fitting = {
        "argv": [["true"], ["echo", draw.choice(WORDS)], [draw.choice(WORDS)]],
        "command": ["true", draw.choice(WORDS)],
        "env": [{"A": draw.choice(WORDS)}, {draw.choice(WORDS): "1"}, ["PATH", draw.choice(WORDS)]],
        "tags": [{"a": draw.choice(WORDS)}, [draw.choice(WORDS)]],
        "keep_children": [True, False],
    }
    return draw.choice(fitting.get(key, [draw.choice(WORDS), draw.choice(NUMBERS)]))


def line_of(draw):
    item = {draw.choice(("argv", "command")): likely(draw, "argv")} if draw.random() < 0.3 else {}
    if not item and draw.random() < 0.9:
        item = draw.choice([{"argv": ["true"]}, {"command": "true"}])
    for _ in range(draw.randrange(4)):
        key = draw.choice(KEYS)
        item[key] = likely(draw, key) if draw.random() < 0.6 else anything(draw)
    text = json.dumps(item, ensure_ascii=draw.random() < 0.5)
    line = text.encode("utf-8", "surrogatepass" if draw.random() < 0.3 else "replace").replace(b"\n", b"")
    if draw.random() < 0.05:  # a wound
        at = draw.randrange(len(line))
        line = line[:at] + bytes([draw.randrange(256)]) + line[at + draw.randrange(3) :]
    return line


class Made:
    """Rows of lines, each as (all it would store, its tags), or what is said of it."""

    def __init__(self):
        self.stage = store.Stage(None)
        self.ctx = Context(clean_env(NOT_MINE="x"), FdSink(1), FdSink(2), stdin=0)
        base = _job.defaults(self.ctx.config()) | {"tag": [("mine", "1")], "note": "n", "after": 5}
        self.rows = _rows.Rows(self.stage, base, self.ctx)
        self.n = 0

    def of(self, text):
        self.n += 1
        try:
            row, tags = self.rows.json(self.n, 7, text)
        except SpoolctlError as error:
            return error.message, error.did_you_mean
        self.stage.put([row], [])
        stored = self.stage.row(self.n)
        return json.dumps(stored, default=repr), sorted(tags)  # in which 1 is not 1.0

    def close(self):
        self.stage.conn.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_line_means_the_same_whatever_lines_came_before(seed, monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: 1e9)
    draw = random.Random(seed)
    warm = Made()
    quick = refused = 0
    edges = map(json.dumps, (None, "", " ", " a ", "\x1f", "x" * 300, 0, []))
    lines = [
        f'{{"argv": ["true"], "{name}": {value}}}'.encode() for value in edges for name in ("key", "note")
    ]
    for line in [*lines, *BAD.values(), *(line_of(draw) for _ in range(400))]:
        line = line.decode("utf-8", "surrogateescape")
        if line[:1] != "{":
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            item = {}
        others = {
            name: value for name, value in item.items() if name not in ("argv", "command", "key", "note")
        }
        warm.of(json.dumps({"argv": ["x"], "key": "other", "note": "other", **others}))
        quick += repr(others) in warm.rows.kinds
        cold = Made()
        cold.rows.kinds.clear()
        expected = cold.of(line)
        cold.close()
        assert warm.of(line) == expected, line
        refused += expected[0][:1] != "["
    warm.close()
    assert quick > 100
    assert refused > 100


@pytest.mark.parametrize("seed", range(8))
def test_any_json_line_is_stored_or_refused(spool, seed):
    draw = random.Random(seed)
    spool.add()
    outcomes = {"INVALID_INPUT": 0, "IDEMPOTENCY_CONFLICT": 0, None: 0}
    for _ in range(250):
        line = line_of(draw)
        answer = bulk(spool, line)  # one envelope that fits its schema, no traceback: or it fails here
        assert answer.code in outcomes, (seed, line, answer)
        if answer.code is not None:
            assert answer.error["detail"].get("line", 1) <= 2, (seed, line, answer)
        outcomes[answer.code] += 1
    assert outcomes[None] > 40
    assert outcomes["INVALID_INPUT"] > 40
    # Whatever was stored can be shown, and be run without bringing the worker down.
    newest = spool.json("list", "--limit", "0")["jobs"]
    for job in newest:
        assert spool.show(job["id"])["job"]["id"] == job["id"]
    spool.run("cancel", "--queue", "default", "--state", "queued", check=0)
    spool.run("retry", f"{newest[-1]['id']}-{newest[0]['id']}", check=0)
    worked = spool.work("-j", "4", "--max-jobs", "60", "--idle-timeout", "0", check=0)
    assert worked.data["executed"] > 10
