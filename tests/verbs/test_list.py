"""list: pages, conditions and fields, and text that a hostile job cannot break."""

from __future__ import annotations

import json
import shlex
import time

import pytest

from spoolctl.contract import shapes
from spoolctl.verbs import list as verb


def ids(answer):
    return [job["id"] for job in answer.data["jobs"]]


def batch(spool, count, *flags):
    spool.json("add", "--from", "-", *flags, stdin=b"true\n" * count)


def test_the_fields_flag_knows_every_key_of_a_job():
    assert tuple(name.rstrip("_") for name in shapes.job_fields()) == verb.FIELDS


def test_pages_give_every_job_once_newest_first_while_more_are_added(spool):
    batch(spool, 25)
    seen, before = [], []
    while True:
        answer = spool.run("list", "--json", "--limit", "10", *before, check=0)
        page = answer.meta["pagination"]
        assert page == {"cursor": ids(answer)[-1], "first_id": 1, "limit": 10, "truncated": page["truncated"]}
        seen += ids(answer)
        batch(spool, 3)
        if not page["truncated"]:
            break
        before = ["--before", str(page["cursor"])]
    assert seen == list(range(25, 0, -1))


def test_the_command_for_the_next_page_keeps_the_conditions(spool):
    batch(spool, 3, "--tag", "its=x y", "--priority", "-2")
    batch(spool, 3)
    answer = spool.run(
        "list", "--json", "--limit", "2", "--tag", "its=x y", "--tag", "its", "--priority-min", "-3",
        "--state", "queued,dead", "--db", str(spool.db), check=0,
    )  # fmt: skip
    assert ids(answer) == [3, 2]
    following = shlex.split(answer.commands[-1])[1:]
    assert ids(spool.run(*following, "--json", check=0)) == [1]


def test_text_says_that_there_are_more_and_how_to_see_them(spool):
    batch(spool, 2)
    answer = spool.run("list", "--limit", "1", check=0)
    assert answer.err == "spoolctl: there are more: spoolctl list --limit 1 --before 2\n"
    answer = spool.run("list", "--limit", "2", check=0)
    assert answer.err == ""


def test_conditions_narrow_and_combine(spool):
    spool.add("--queue", "a", "--tag", "run=1", "--key", "k", "--", "true")
    spool.add("--queue", "b", "--tag", "run=2", "--tag", "big=", "--priority", "5", "--", "true")
    spool.add("--queue", "a", "--tag", "run=2", "--", "true")
    spool.json("cancel", "3")
    for flags, expected in {
        (): [3, 2, 1],
        ("--queue", "a"): [3, 1],
        ("--state", "canceled"): [3],
        ("--state", "queued,canceled", "--queue", "a"): [3, 1],
        ("--tag", "run=2"): [3, 2],
        ("--tag", "run"): [3, 2, 1],
        ("--tag", "run=2", "--tag", "big"): [2],
        ("--key", "k"): [1],
        ("--priority-min", "1"): [2],
        ("--queue", "none"): [],
        ("--state", "failed"): [],
        ("--since", "2900-01-01"): [],
        ("--until", "1999-01-01"): [],
        ("--since", "0", "--until", "2900-01-01", "--limit", "0"): [3, 2, 1],
    }.items():
        assert ids(spool.run("list", "--json", *flags, check=0)) == expected, flags
    empty = spool.run("list", "--json", "--queue", "none", check=0)
    assert empty.meta["pagination"] == {"cursor": 0, "first_id": 1, "limit": 50, "truncated": False}
    assert spool.run("list", "--state", "canceld", "--json").error["did_you_mean"] == "canceled"


def test_since_and_until_take_the_moment_itself(spool):
    spool.add()
    at = repr(spool.json("list")["jobs"][0]["created_at"])
    time.sleep(0.005)
    spool.add()
    assert ids(spool.run("list", "--json", "--until", at)) == [1]
    assert ids(spool.run("list", "--json", "--since", at)) == [2, 1]


def test_only_the_fields_asked_for_are_given_in_their_order(spool):
    spool.add("--tag", "a=1", "--", "echo", "hi")
    job = spool.json("list", "--fields", "tags,id,argv,payload")["jobs"][0]
    assert list(job.items()) == [("tags", {"a": "1"}), ("id", 1), ("argv", ["echo", "hi"])]
    assert "a=1" in spool.run("list", "--fields", "id,tags,created_at", check=0).text
    assert spool.run("list", "--fields", "id,stat", "--json").error["did_you_mean"] == "id,state"


def test_env_values_never_show_and_bad_bytes_do(spool):
    spool.add("--env", "SECRET=hunter2", "--note", "n", "--", "printf", "a\udcffb")
    answer = spool.run("list", "--json", check=0)
    assert b"hunter2" not in answer.out
    assert answer.data["jobs"][0]["argv"] == ["printf", "a\ufffdb"]


@pytest.mark.parametrize("flags", [(), ("--fields", "argv,note,id")])
def test_text_stays_a_line_a_job_whatever_its_words_hold(spool, flags):
    spool.add("--note", "two\nlines\x1b[2J", "--", "printf", "a\nb", "\x1b[31m", "\u2028", "x" * 5000)
    spool.add("--", "true")
    text = spool.run("list", *flags, check=0).text
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text and "\\x1b[31m" in text and "a\\nb" in text
    if not flags:
        assert max(map(len, text.splitlines())) <= 80


def test_equal_reads_have_equal_hashes_and_a_missing_database_stays_missing(spool):
    answer = spool.run("list", "--json", check=0)
    assert answer.data == {"count": 0, "jobs": []}
    assert answer.meta["pagination"] == {"cursor": 0, "first_id": None, "limit": 50, "truncated": False}
    assert spool.files() == []
    spool.add()
    first, second = (spool.run("list", "--json").meta["data_hash"] for _ in range(2))
    assert first == second
    assert "no jobs" in spool.run("list", "--queue", "none").text


def test_a_damaged_row_hides_no_other(spool):
    import sqlite3

    for _ in range(3):
        spool.add("--env", "A=1", "--", "true")
    db = sqlite3.connect(spool.db)
    db.execute("UPDATE jobs SET argv = '{broken', env = '[1' WHERE id = 2")
    db.execute("UPDATE jobs SET note = CAST(x'ff41' AS TEXT) WHERE id = 1")
    db.commit()
    db.close()
    answer = spool.run("list", "--json", check=0)
    assert ids(answer) == [3, 2, 1]
    assert json.dumps(answer.data["jobs"][1]["argv"]) == '["{broken"]'
    assert spool.show(2)["job"]["env"] == {}
    assert answer.data["jobs"][2]["note"] == "\ufffdA"
