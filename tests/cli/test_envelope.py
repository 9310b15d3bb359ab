"""SPEC 2.1: the envelope, what selects it, and the order of refusal."""

from __future__ import annotations

import datetime

import pytest
from support import refused

from spoolctl import registry

VERBS = list(registry.VERBS)


# --- the envelope ---------------------------------------------------------------------------------------


def test_every_answer_has_its_own_request_id_and_the_present_time(spool):
    first, second = spool.run("list", "--json"), spool.run("list", "--json")
    assert first.meta["request_id"] != second.meta["request_id"]
    at = datetime.datetime.strptime(first.meta["ts_iso"], "%Y-%m-%dT%H:%M:%S.%fZ")
    age = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - at
    assert abs(age.total_seconds()) < 60


def test_two_equal_reads_have_the_same_hash(spool):
    spool.add()
    for words in (("list",), ("status",), ("show", "1"), ("feedback", "1"), ("events",)):
        first, second = (spool.run(*words, "--json") for _ in range(2))
        assert first.meta["data_hash"] == second.meta["data_hash"], words
        assert first.meta["request_id"] != second.meta["request_id"]


def test_a_success_says_nothing_on_stderr_and_a_refusal_mirrors_one_line(spool):
    assert spool.run("list", "--json").err == ""
    answer = spool.run("show", "--json", "99")
    assert answer.code == "NOT_FOUND"
    assert answer.err.startswith("spoolctl: NOT_FOUND: ")


def test_the_mirror_can_be_switched_off(spool):
    assert spool.run("show", "--json", "99", env={"SPOOLCTL_STDERR": "off"}).err == ""
    assert spool.run("show", "99", env={"SPOOLCTL_STDERR": "off"}).err.startswith("spoolctl: NOT_FOUND: ")


@pytest.mark.parametrize("value", ["", "on", "OFF", "0"])
def test_only_the_word_off_switches_the_mirror_off(spool, value):
    assert spool.run("nope", "--json", env={"SPOOLCTL_STDERR": value}).err


def test_in_text_mode_a_refusal_goes_to_stderr_with_a_hint(spool):
    answer = spool.run("lisst")
    assert answer.out == b""
    lines = answer.err.splitlines()
    assert lines[0].startswith("spoolctl: UNKNOWN_COMMAND: ")
    assert lines[1] == "hint: spoolctl list --help"
    assert lines[2] == "did you mean list?"
    assert answer.exit == 1


def test_control_characters_of_a_message_are_escaped(spool):
    for word in ("a\nb", "\x1b[31mred", "tab\there", "\u2028", "\x00", "\x9b"):
        answer = spool.run("list", "--limit", word)
        assert answer.code == "INVALID_INPUT"
        assert all(line.isprintable() for line in answer.err.splitlines()), answer
        spool.run("list", "--json", "--limit", word)


@pytest.mark.parametrize("verb", VERBS)
def test_two_refusals_in_a_row_are_equal_but_for_the_moment(spool, verb):
    first, second = (spool.run(verb, "--json", "--no-such-flag") for _ in range(2))
    assert first.json["errors"] == second.json["errors"]
    assert first.meta["data_hash"] == second.meta["data_hash"]


# --- JSON mode ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "list"),
        ("list", "--json"),
        ("list", "--limit", "1", "--json"),
        ("list", "--json", "--limit=1"),
    ],
)
def test_json_may_stand_anywhere(spool, words):
    assert spool.run(*words).data["count"] == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--json", "nope"), "UNKNOWN_COMMAND"), (("nope", "--json"), "UNKNOWN_COMMAND"),
        (("nope", "a", "b", "--json"), "UNKNOWN_COMMAND"), (("list", "--nope", "--json"), "UNKNOWN_FLAG"),
        (("--nope", "--json"), "UNKNOWN_FLAG"), (("--json",), "MISSING_REQUIRED"),
        (("add", "echo", "--json"), "INVALID_INPUT"), (("list", "--limit", "--json"), "INVALID_INPUT"),
        (("--json", "--", "list"), "INVALID_INPUT"), (("--json", "--json", "list"), "INVALID_INPUT"),
    ],
)  # fmt: skip
def test_json_also_selects_the_envelope_for_what_cannot_be_parsed(spool, words, code):
    assert spool.run(*words).code == code


@pytest.mark.parametrize("word", ["--json=1", "--json=", "--json=true", "--json=false"])
@pytest.mark.parametrize("where", ["before", "after", "no verb", "unknown verb"])
def test_a_value_on_json_is_refused_in_an_envelope(spool, word, where):
    words = {
        "before": [word, "list"],
        "after": ["list", word],
        "no verb": [word],
        "unknown verb": ["nope", word],
    }
    answer = spool.run(*words[where])
    assert answer.json is not None
    assert answer.code == ("UNKNOWN_COMMAND" if where == "unknown verb" else "INVALID_INPUT")


def test_json_behind_the_two_dashes_belongs_to_the_command(spool):
    answer = spool.run("add", "--", "echo", "--json")
    assert answer.json is None
    assert spool.show(1)["job"]["argv"] == ["echo", "--json"]


# --- the order of refusal -------------------------------------------------------------------------------


def test_syntax_is_refused_before_values_and_values_before_exclusions(spool):
    bad = ("--priority", "x", "--after", "1h", "--at", "0")
    assert spool.run("add", "--json", *bad, "--bogus", "--", "true").code == "UNKNOWN_FLAG"
    assert spool.run("add", "--json", *bad).code == "MISSING_REQUIRED"
    refused(spool.run("add", "--json", *bad, "--", "true"), flag="--priority")
    assert "exclude" in spool.run("add", "--json", *bad[2:], "--", "true").error["message"]


def test_the_first_bad_token_is_the_one_that_is_named(spool):
    refused(
        spool.run("add", "--json", "--max-retries", "x", "--priority", "y", "--", "z"), flag="--max-retries"
    )
    refused(spool.run("add", "--json", "--priority", "y", "--max-retries", "x", "--", "z"), flag="--priority")
    assert "--bogus" in spool.run("add", "--json", "--bogus", "--other", "--", "true").error["message"]


def test_values_are_refused_before_the_safety_gate_and_that_before_the_database(spool):
    spool.db.parent.mkdir()
    spool.db.write_bytes(b"garbage" * 1000)
    refused(spool.run("prune", "--json", "--older-than", "x"), flag="--older-than")
    assert spool.run("prune", "--json").code == "MISSING_REQUIRED"
    assert spool.run("prune", "--json", "--older-than", "1h").code == "SAFETY_BLOCK"
    assert spool.run("prune", "--json", "--older-than", "1h", "--yes").code == "DB_INVALID"
    assert spool.run("cancel", "--json", "1", "--running").code == "SAFETY_BLOCK"
    assert spool.run("cancel", "--json", "1").code == "DB_INVALID"
    assert spool.run("show", "--json", "1").code == "DB_INVALID"


def test_not_found_comes_before_the_state(spool):
    spool.add()
    spool.run("cancel", "1", "--json", check=0)
    assert spool.run("cancel", "--json", "1", "99").code == "NOT_FOUND"
    assert spool.run("cancel", "--json", "1").code == "CONFLICT"


def test_a_malformed_config_is_refused_before_the_database_is_opened(spool):
    spool.db.parent.mkdir()
    spool.db.write_bytes(b"garbage" * 1000)
    (spool.path / ".spoolctl" / "config.json").write_text("[]")
    refused(spool.run("list", "--json"))
