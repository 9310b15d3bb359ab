"""add: one job. What is stored, what is answered, and what a key does; `--from` has tests of its own."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import time

import pytest
from support import clean_env, command, document, finish, wait_until

from spoolctl.store import db

# Every flag that describes a job: words on the command line -> what `show` then says.
STORED = {
    ("--priority", "-7"): {"priority": -7},
    ("--priority", "2147483647"): {"priority": 2147483647},
    ("--queue", "A.b-c_1"): {"queue": "A.b-c_1"},
    ("-q", "x"): {"queue": "x"},
    ("--key", "  padded é "): {"idempotency_key": "padded é"},
    ("--timeout", "90"): {"timeout_seconds": 90},
    ("--timeout", "1.5h"): {"timeout_seconds": 5400},
    ("--timeout", "0.25"): {"timeout_seconds": 0.25},
    ("--timeout", "9223372036854775807"): {"timeout_seconds": 2**63 - 1},
    ("--timeout", "none"): {"timeout_seconds": None},
    ("--max-retries", "0"): {"max_retries": 0},
    ("--max-crashes", "7"): {"max_crashes": 7},
    ("--max-crashes", "none"): {"max_crashes": None},
    ("--env", "A=b=c"): {"env": {"A": "b=c"}},
    ("--env", "SPOOLCTL_DB=elsewhere"): {"env": {"SPOOLCTL_DB": "elsewhere"}},
    ("--tag", "run=42", "--tag", "a.b:c="): {"tags": {"a.b:c": "", "run": "42"}},
    ("--note", "two\nlines é"): {"note": "two\nlines é"},
    ("--max-output", "2k"): {"max_output_bytes": 2048},
    ("--max-output", "none"): {"max_output_bytes": None},
    ("--keep-children",): {"keep_children": True},
    ("--backoff-base", "1m"): {"backoff": {"base": 60, "factor": 2, "max": 60, "jitter": 0}},
    ("--backoff-factor", "1.5"): {"backoff": {"base": 2, "factor": 1.5, "max": 60, "jitter": 0}},
    ("--backoff-max", "0"): {"backoff": {"base": 2, "factor": 2, "max": 0, "jitter": 0}},
    ("--backoff-jitter", "0.5"): {"backoff": {"base": 2, "factor": 2, "max": 60, "jitter": 0.5}},
}


def add(spool, *words, **options):
    return spool.run("add", "--json", *words, **options)


def job(spool, job_id):
    return spool.show(job_id)["job"]


def link(spool, name, target):
    (spool.path / target).mkdir(exist_ok=True)
    (spool.path / name).symlink_to(target)
    return spool.path / name


# --- the answer -------------------------------------------------------------------------------------------


def test_a_job_is_answered_in_full_and_stored_with_the_defaults(spool):
    before = time.time()
    answer = add(spool, "--", "echo", "hi", check=0)
    stored = job(spool, 1)
    assert answer.data == {
        "job_id": 1,
        "state": "queued",
        "deduplicated": False,
        "next_run_at": stored["created_at"],
        "priority": 0,
        "queue": "default",
        "cwd": str(spool.path),
        "env_keys": [],
    }
    assert answer.commands == ["spoolctl work --drain", "spoolctl wait 1", "spoolctl feedback 1"]
    assert before - 0.002 <= stored["created_at"] <= time.time()
    expected = {
        "id": 1,
        "argv": ["echo", "hi"],
        "state": "queued",
        "attempts": 0,
        "crashes": 0,
        "max_retries": 3,
        "max_crashes": 10,
        "timeout_seconds": 300,
        "priority": 0,
        "queue": "default",
        "cwd": str(spool.path),
        "idempotency_key": None,
        "tags": {},
        "note": None,
        "env": {},
        "captured_env": {"PATH": clean_env()["PATH"]},
        "backoff": {"base": 2, "factor": 2, "max": 60, "jitter": 0},
        "max_output_bytes": None,
        "keep_children": False,
        "locked_by": None,
        "ending": None,
    }
    assert {name: stored[name] for name in expected} == expected
    assert "payload" not in stored
    assert [event["event"] for event in spool.show(1)["events"]] == ["added"]


def test_the_first_job_makes_the_database_and_says_where(spool):
    first, second = add(spool, "true", check=0), add(spool, "true", check=0)
    assert [w["code"] for w in first.json["warnings"]] == ["DB_CREATED", "NO_WORKER"]
    assert str(spool.db) in first.json["warnings"][0]["message"]
    assert second.warnings == ["NO_WORKER"]
    text = spool.run("add", "true", check=0)
    assert text.text == "job 3 added\n"
    assert text.warnings == ["NO_WORKER"]


def test_text_says_when_a_delayed_job_is_due_and_that_a_keyed_one_is_there(spool):
    assert spool.run("add", "--after", "1h", "true", check=0).text.startswith("job 1 added, due in ")
    spool.add("--key", "k", "true")
    assert spool.run("add", "--key", "k", "true", check=0).text == "job 2 is there already (queued)\n"


@pytest.mark.parametrize("words", STORED, ids=" ".join)
def test_every_flag_is_stored(spool, words):
    answer = add(spool, *words, "--", "true", check=0)
    stored = job(spool, answer.data["job_id"])
    assert {name: stored[name] for name in STORED[words]} == STORED[words]


def test_env_is_sorted_the_last_counts_and_a_name_alone_copies(spool):
    words = ("--env", "Z=1", "--env", "A=first", "--env", "COPIED", "--env", "A=last")
    answer = add(spool, *words, "true", env={"COPIED": "from here"}, check=0)
    assert answer.data["env_keys"] == ["A", "COPIED", "Z"]
    assert job(spool, 1)["env"] == {"A": "last", "COPIED": "from here", "Z": "1"}
    refused = add(spool, "--env", "NOT_SET_HERE", "true", check=1)
    assert refused.code == "INVALID_INPUT"
    assert "NOT_SET_HERE" in refused.error["message"]


@pytest.mark.parametrize("name", ["JOB_ID", "ATTEMPT", "QUEUE", "JOB_DB", "ATTEMPT_TOKEN"])
def test_what_the_worker_sets_cannot_be_set(spool, name):
    for word in (f"SPOOLCTL_{name}=1", f"SPOOLCTL_{name}"):
        assert add(spool, "--env", word, "true", check=1).code == "INVALID_INPUT"
    assert not spool.db.exists()


def test_tags_are_refused_twice_or_too_many(spool):
    assert add(spool, "--tag", "a=1", "--tag", "a=1", "true", check=1).code == "INVALID_INPUT"
    words = [word for n in range(17) for word in ("--tag", f"t{n}=x")]
    assert add(spool, *words, "true", check=1).error["detail"]["maximum"] == 16
    assert add(spool, *words[2:], "true", check=0).data["job_id"] == 1


@pytest.mark.parametrize(
    "look", ["PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_master"]
)
def test_a_database_that_is_made_between_two_looks_is_no_foreign_one(spool, monkeypatch, look):
    spool.db.parent.mkdir(mode=0o700)
    half_made = sqlite3.connect(spool.db)
    half_made.execute("PRAGMA journal_mode = WAL")  # a header and no schema yet
    half_made.close()
    assert spool.db.stat().st_size > 0
    real, seen = db.connect, []

    class Meanwhile:
        """A connection before whose look somebody else makes the schema."""

        def __init__(self, conn):
            self.conn = conn

        def __getattr__(self, name):
            return getattr(self.conn, name)

        def execute(self, sql, *values):
            if sql == look and not seen:
                seen.append(look)
                monkeypatch.setattr(db, "connect", real)
                spool.cli("add", "true", check=0)
            return self.conn.execute(sql, *values)

    monkeypatch.setattr(db, "connect", lambda *words: Meanwhile(real(*words)))
    assert spool.add() == 2


# --- the command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (("--", "a", "--json", "--", "-c"), ["a", "--json", "--", "-c"]),
        (("--", "--"), ["--"]),
        (("--", "-x"), ["-x"]),
        (("echo", "hi"), ["echo", "hi"]),
        (("echo", "--", "hi"), ["echo", "--", "hi"]),
        (("echo", "-1", ""), ["echo", "-1", ""]),
        (("--note", "n", "echo"), ["echo"]),
        (("-c", "a | b; exit 3"), ["sh", "-c", "a | b; exit 3"]),
        (("-c", " "), ["sh", "-c", " "]),
        (("-c", "--"), None),
        (("-c=-x",), ["sh", "-c", "-x"]),
        (("--", "x" * 200_000), ["x" * 200_000]),
        (("--", "printf", "%s|", "a b", "", "*", "$HOME", "it's", "n\nl"),
         ["printf", "%s|", "a b", "", "*", "$HOME", "it's", "n\nl"]),
    ],
)  # fmt: skip
def test_the_command_is_taken_exactly(spool, words, argv):
    answer = add(spool, *words)
    if argv is None:
        assert answer.code == "INVALID_INPUT"
    else:
        assert answer.exit == 0
        assert job(spool, 1)["argv"] == argv


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "MISSING_REQUIRED"),
        (("--",), "MISSING_REQUIRED"),
        (("-c", ""), "MISSING_REQUIRED"),
        (("--note", "x"), "MISSING_REQUIRED"),
        (("--", ""), "INVALID_INPUT"),
        (("", "x"), "INVALID_INPUT"),
        (("-c", "true", "x"), "INVALID_INPUT"),
        (("-c", "true", "--", "x"), "INVALID_INPUT"),
        (("-c", "true", "-c", "true"), "INVALID_INPUT"),
        (("echo", "-n", "hi"), "INVALID_INPUT"),
        (("echo", "--json"), "INVALID_INPUT"),
        (("--after", "1", "--at", "2", "true"), "INVALID_INPUT"),
        (("--key-scope", "kept", "true"), "INVALID_INPUT"),
        (("--from", "x", "true"), "INVALID_INPUT"),
        (("--from", "x", "-c", "true"), "INVALID_INPUT"),
        (("-c", "a\0b"), "INVALID_INPUT"),
    ],
)
def test_what_is_no_command_is_refused_and_makes_nothing(spool, words, code):
    answer = add(spool, *words, check=1)
    assert answer.code == code
    assert spool.files() == []


def test_bytes_that_are_not_utf8_survive_and_are_shown_replaced(spool):
    words = [*command("add", "--json", "--env"), b"E=\xfe", b"--", b"printf", b"%s", b"a\xffb"]
    done = subprocess.run(words, cwd=spool.path, env=clean_env(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    document(done.stdout, "add", status=0)
    stored = job(spool, 1)
    assert stored["argv"] == ["printf", "%s", "a\ufffdb"]
    assert stored["env"] == {"E": "\ufffd"}
    spool.work(check=0)
    assert spool.run("output", "1", "--raw", "--stream", "stdout", check=0).out == b"a\xffb"


# --- where ------------------------------------------------------------------------------------------------


def test_the_directory_is_the_submitters_absolute_with_its_links(spool):
    shown = link(spool, "shown", "real")
    env = {"PWD": str(shown), "SPOOLCTL_DB": "../q.db"}
    via = spool.run("add", "--json", "pwd", cwd=shown, env=env, check=0)
    assert via.data["cwd"] == str(shown)
    for words, cwd in (
        (("--cwd", "shown"), shown),
        (("--cwd", str(shown)), shown),
        (("--cwd", "./shown/../not there"), spool.path / "not there"),
        (("--cwd", "."), spool.path),
        (("--cwd", "/"), "/"),
    ):
        assert add(spool, *words, "pwd", check=0).data["cwd"] == str(cwd)


# --- when -------------------------------------------------------------------------------------------------


def due(spool, *words, **options):
    answer = add(spool, *words, "true", check=0, **options)
    stored = job(spool, answer.data["job_id"])
    assert answer.data["next_run_at"] == stored["next_run_at"]
    return stored["next_run_at"], stored["created_at"], answer.warnings


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("90", 90), ("1.5h", 5400), ("2d", 172_800), ("0.25", 0.25), ("31536000000", 31536000000)],
)
def test_after_counts_from_now(spool, word, seconds):
    at, created, warnings = due(spool, "--after", word)
    assert at == pytest.approx(created + seconds, abs=0.0011)
    assert "NO_WORKER" not in warnings  # nothing is due that a worker could run


@pytest.mark.parametrize("words", [("--after", "0"), ("--at", "0"), ("--at", "-5.5"), ("--at", "1999-12-31")])
def test_no_delay_and_the_past_mean_now(spool, words):
    at, created, warnings = due(spool, *words)
    assert at == created
    assert "NO_WORKER" in warnings


@pytest.mark.parametrize(
    ("word", "zone_name", "epoch"),
    [
        ("4102444800", "UTC", 4102444800),
        ("4102444800.25", "UTC", 4102444800.25),
        ("2100-01-01", "UTC", 4102444800),
        ("2100-01-01T00:00Z", "Asia/Tokyo", 4102444800),
        ("2100-01-01 01:00:00+01:00", "Asia/Tokyo", 4102444800),
        ("2099-12-31T18:30:00.5-05:30", "UTC", 4102444800.5),
        ("2100-01-01T09:00", "Asia/Tokyo", 4102444800),
        ("2100-01-01", "Asia/Tokyo", 4102412400),
        ("2037-03-29T02:30", "Europe/Berlin", 2121903000),  # a gap: forward to 03:30
        ("2037-10-25T02:30", "Europe/Berlin", 2140043400),  # a fold: the first of the two
    ],
)
def test_a_moment_is_read_in_its_offset_or_in_the_submitters_zone(spool, zone, word, zone_name, epoch):
    zone(zone_name)
    at, _, warnings = due(spool, "--at", word)
    assert at == epoch
    assert "NO_WORKER" not in warnings


def test_a_delayed_job_waits(spool):
    spool.add("--after", "1h", "-c", "echo later")
    first = spool.add("-c", "echo now")
    assert spool.work(check=0).data["executed"] == 1
    assert [spool.state(1), spool.state(first)] == ["queued", "done"]


# --- who runs it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", ["default", "builds"])
def test_without_a_worker_the_warning_is_the_line_that_starts_one(spool, lane):
    answer = add(spool, "-q", lane, "touch", "ran", check=0)
    line = next(w["message"] for w in answer.json["warnings"] if w["code"] == "NO_WORKER")
    worker = spool.start(*shlex.split(line)[1:])
    wait_until(lambda: (spool.path / "ran").exists())
    assert add(spool, "-q", lane, "true", check=0).warnings == []
    assert add(spool, "-q", "other", "true", check=0).warnings == ["NO_WORKER"]
    spool.stop(worker)
    assert add(spool, "-q", lane, "true", check=0).warnings == ["NO_WORKER"]


def test_the_line_repeats_the_database_and_the_lane_of_the_config(spool):
    answer = spool.run("add", "--json", "--db", "my queue.db", "true", check=0)
    assert answer.json["warnings"][1]["message"] == "spoolctl work --db 'my queue.db'"
    assert answer.commands[1] == "spoolctl wait --db 'my queue.db' 1"
    configure(spool, defaults={"queue": "slow"})
    assert add(spool, "true", check=0).json["warnings"][-1]["message"] == "spoolctl work --queue slow"


# --- the config's defaults --------------------------------------------------------------------------------


def configure(spool, **config):
    folder = spool.path / ".spoolctl"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))


def test_the_config_replaces_defaults_and_flags_replace_the_config(spool):
    configure(spool, defaults={"timeout": "none", "max_retries": 9, "max_crashes": 0, "queue": "slow"})
    names = ("timeout_seconds", "max_retries", "max_crashes", "queue")
    assert [job(spool, spool.add())[name] for name in names] == [None, 9, 0, "slow"]
    words = ("--timeout", "5", "--max-retries", "1", "--max-crashes", "none", "-q", "fast", "true")
    assert [job(spool, spool.add(*words))[name] for name in names] == [5, 1, None, "fast"]
    lines = b'true\n{"argv": ["a"], "queue": "x"}\n'
    many = spool.json("add", "--from", "-", "--max-retries", "2", stdin=lines)
    assert [[job(spool, n)[name] for name in names] for n in many["job_ids"]] == [
        [None, 2, 0, "slow"],
        [None, 2, 0, "x"],
    ]


def test_the_config_says_which_variables_travel_along(spool):
    mine = {"PATH": "/bin:/usr/bin", "VIRTUAL_ENV": "/venv", "TOKEN": "t", "ODD": "a b"}
    assert job(spool, spool.add("true", env=mine))["captured_env"] == {
        "PATH": "/bin:/usr/bin",
        "VIRTUAL_ENV": "/venv",
    }
    configure(spool, capture_env=["TOKEN", "UNSET", "ODD"])
    assert job(spool, spool.add("true", env=mine))["captured_env"] == {"TOKEN": "t", "ODD": "a b"}
    configure(spool, capture_env=[])
    assert job(spool, spool.add("true", env=mine))["captured_env"] == {}
    # They are not compared: the same command from another shell is the same job.
    configure(spool, capture_env=["TOKEN"])
    first = spool.add("--key", "k", "true", env={"TOKEN": "1"})
    assert spool.add("--key", "k", "true", env={"TOKEN": "2"}) == first


# --- keys -------------------------------------------------------------------------------------------------


def test_fifty_at_once_of_one_key_are_one_job(spool):
    calls = [spool.start("add", "--json", "--key", "nightly", "--", "true") for _ in range(50)]
    answers = [finish(call, check=0).data for call in calls]
    assert {answer["job_id"] for answer in answers} == {1}
    assert sorted(answer["deduplicated"] for answer in answers) == [False] + [True] * 49
    assert spool.json("status")["counts"]["queued"] == 1


def test_the_same_line_twice_is_the_same_job_and_writes_nothing(spool):
    words = ("--key", "k", "--after", "1h", "--tag", "a=1", "--note", "n", "--env", "B=1", "--", "make")
    first = add(spool, *words, check=0).data
    assert first["idempotency"] == {"key": "k", "metadata_differs": False, "metadata_differences": {}}
    events = spool.json("events")["count"]
    again = add(spool, *words, check=0)
    assert again.data == first | {"deduplicated": True}
    assert again.warnings == []
    assert spool.json("events")["count"] == events


def test_every_field_of_the_answer_is_the_existing_jobs(spool):
    first = add(spool, "--key", "k", "--after", "1h", "--env", "A=1", "true", check=0).data
    again = add(spool, "--key", "k", "--env", "A=1", "true", check=0).data
    assert again["next_run_at"] == first["next_run_at"]
    assert again["idempotency"]["metadata_differences"] == {
        "schedule": {"existing": "after 3600", "submitted": None}
    }


BASE = ("--timeout", "5", "--env", "SECRET=hunter2", "--", "make", "all")
CHANGED = {
    "argv": ("--timeout", "5", "--env", "SECRET=hunter2", "--", "make", "most"),
    "timeout": ("--timeout", "6", "--env", "SECRET=hunter2", "--", "make", "all"),
    "env": ("--timeout", "5", "--env", "SECRET=swordfish", "--", "make", "all"),
    "cwd": ("--cwd", "/", *BASE),
    "max_retries": ("--max-retries", "4", *BASE),
    "max_crashes": ("--max-crashes", "none", *BASE),
    "priority": ("--priority", "1", *BASE),
    "max_output": ("--max-output", "1G", *BASE),
    "keep_children": ("--keep-children", *BASE),
}


@pytest.mark.parametrize("field", CHANGED)
def test_another_command_under_the_key_is_a_conflict_that_names_the_field(spool, field):
    first = spool.add("--key", "k", *BASE)
    before = spool.json("events")
    for mode in (["--json"], []):
        answer = spool.run("add", *mode, "--key", "k", *CHANGED[field], check=5)
        assert answer.code == "IDEMPOTENCY_CONFLICT"
        said = answer.out.decode() + answer.err
        assert "hunter2" not in said
        assert "swordfish" not in said
        if mode:
            assert answer.error["detail"] == {"job_id": first, "fields": [field]}
            assert answer.error["remediation"] == f"spoolctl show {first}"
    assert spool.json("events") == before


@pytest.mark.parametrize("flag", ["base", "factor", "max", "jitter"])
def test_each_part_of_the_backoff_counts_as_one_field(spool, flag):
    first = spool.add("--key", "k", "true")
    answer = add(spool, "--key", "k", f"--backoff-{flag}", "1", "true", check=5)
    assert answer.error["detail"] == {"job_id": first, "fields": ["backoff"]}


def test_several_fields_are_all_named_and_c_is_an_argv(spool):
    first = spool.add("--key", "k", "-c", "true")
    answer = add(spool, "--key", "k", "--priority", "1", "--env", "A=1", "-c", "false", check=5)
    assert answer.error["detail"] == {"job_id": first, "fields": ["argv", "env", "priority"]}
    assert spool.add("--key", "k", "--", "sh", "-c", "true") == first


def test_the_directory_counts_even_when_it_was_not_given(spool):
    first = spool.add("--key", "k", "true")
    (spool.path / "sub").mkdir()
    answer = spool.run("add", "--json", "--key", "k", "true", cwd=spool.path / "sub", check=5)
    assert answer.error["detail"] == {"job_id": first, "fields": ["cwd"]}
    assert spool.run(
        "add", "--json", "--key", "k", "--cwd", "..", "true", cwd=spool.path / "sub", check=0
    ).data["deduplicated"]


@pytest.mark.parametrize(
    ("words", "differences"),
    [
        (("--tag", "a=1"), {"tags": {"existing": {"b": "2"}, "submitted": {"a": "1"}}}),
        (("--tag", "b=2", "--note", "n"), {"note": {"existing": None, "submitted": "n"}}),
        (("--tag", "b=2", "--after", "60"), {"schedule": {"existing": None, "submitted": "after 60"}}),
        (("--tag", "b=2", "--at", "1970-01-02"), {"schedule": {"existing": None, "submitted": "at 86400"}}),
        (("--note", ""), {"tags": {"existing": {"b": "2"}, "submitted": {}},
                          "note": {"existing": None, "submitted": ""}}),
    ],
)  # fmt: skip
def test_only_tags_note_or_schedule_differ(spool, words, differences):
    first = spool.add("--key", "k", "--tag", "b=2", "true")
    answer = add(spool, "--key", "k", *words, "true", check=0)
    assert (answer.data["job_id"], answer.data["deduplicated"]) == (first, True)
    assert answer.data["idempotency"] == {
        "key": "k",
        "metadata_differs": True,
        "metadata_differences": differences,
    }
    assert "IDEMPOTENCY_METADATA_DIFFERS" in answer.warnings
    stored = job(spool, first)
    assert (stored["tags"], stored["note"]) == ({"b": "2"}, None)


def test_the_same_line_never_warns_also_in_backoff_and_while_running(spool):
    delays = ("--backoff-base", "1h", "--backoff-max", "1h")
    words = ("--key", "k", "--at", "2000-01-01", *delays, "-c", "exit 1")
    first = spool.add(*words)
    spool.work("--once", check=0)
    assert job(spool, first)["next_run_at"] > time.time() + 3000
    answer = add(spool, *words, check=0)
    assert (answer.data["deduplicated"], answer.warnings) == (True, [])

    spool.add("--key", "r", "-c", "touch up; sleep 60")
    worker = spool.start("work", "--grace", "0.2")
    wait_until(lambda: (spool.path / "up").exists())
    answer = add(spool, "--key", "r", "-c", "touch up; sleep 60", check=0)
    assert (answer.data["state"], answer.data["deduplicated"], answer.warnings) == ("running", True, [])
    spool.stop(worker)


def test_a_key_belongs_to_its_lane(spool):
    first = spool.add("--key", "k", "true")
    assert spool.add("--key", "k", "-q", "other", "false") != first
    assert spool.add("--key", "k", "true") == first


@pytest.mark.parametrize("end", ["done", "dead", "canceled"])
def test_a_key_is_free_again_when_its_job_is_over_unless_it_is_kept(spool, end):
    first = spool.add("--key", "k", "--max-retries", "0", "-c", "exit 1" if end == "dead" else "true")
    if end == "canceled":
        spool.run("cancel", str(first), check=0)
    else:
        spool.work(check=0)
    assert spool.state(first) == end
    kept = add(spool, "--key", "k", "--key-scope", "kept", "--priority", "9", "--", "another", check=0).data
    assert (kept["job_id"], kept["state"], kept["deduplicated"], kept["priority"]) == (first, end, True, 0)
    assert spool.add("--key", "k", "--", "another") == first + 1
    # Now the active one is meant, also by those who would take a finished one.
    assert add(spool, "--key", "k", "--key-scope", "kept", "true", check=0).data["job_id"] == first + 1


def test_a_kept_key_is_free_when_the_row_is_gone_and_matches_the_active_before_newer_ones(spool):
    def kept(*words):
        return add(spool, "--key", "k", "--key-scope", "kept", *words, check=0).data["job_id"]

    first = kept("true")
    spool.run("cancel", str(first), check=0)
    second = spool.add("--key", "k", "true")
    spool.run("cancel", str(second), check=0)
    assert kept("true") == second
    spool.run("retry", str(first), check=0)
    assert kept("true") == first
    spool.run("cancel", str(first), check=0)
    spool.run("prune", "--older-than", "0", "--state", "canceled", "--yes", check=0)
    assert kept("true") == second + 1
