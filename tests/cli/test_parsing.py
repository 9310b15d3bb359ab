"""SPEC 2.1 to 2.3: the envelope, the order of refusal, and every rule of the command line."""

from __future__ import annotations

import datetime
import os
import re
import signal
import subprocess

import pytest
from support import (
    ROOT,
    clean_env,
    cli,
    command,
    finish,
    run,
    strict_json,
    valid_line,
    valid_word,
    wait_until,
)

from spoolctl import __version__, argv, registry
from spoolctl.contract.spec import Arg, Flag, Verb
from spoolctl.contract.types import Choice, Command, Integer
from spoolctl.errors import SpoolctlError

VERBS = list(registry.VERBS)


def refused(answer, code="INVALID_INPUT", **detail):
    """The error of an answer, which must have this code and at least these facts."""
    assert answer.code == code, answer
    if answer.json is not None:
        assert answer.error["remediation"], answer
        for name, value in detail.items():
            assert answer.error["detail"][name] == value, answer
        return answer.error
    return None


# --- the envelope -----------------------------------------------------------------------------------------


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
    assert lines[1] == "hint: spoolctl --help"
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


# --- JSON mode --------------------------------------------------------------------------------------------


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


# --- verbs, help, version ---------------------------------------------------------------------------------


def test_no_verb_is_missing(spool):
    assert spool.run().exit == 1
    assert spool.run().code == "MISSING_REQUIRED"
    assert spool.run().out == b""
    assert spool.run("--json").code == "MISSING_REQUIRED"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("lst", "list"), ("stauts", "status"), ("ad", "add"), ("config-shwo", "config-show"),
     ("cancle", "cancel"), ("frobnicate", None), ("", None), ("LIST", None), ("x" * 10_000, None),
     ("-1", None), ("li st", "list")],
)  # fmt: skip
def test_an_unknown_verb_suggests_the_nearest(spool, word, meant):
    error = refused(spool.run(word, "--json"), "UNKNOWN_COMMAND")
    assert error["did_you_mean"] == meant
    assert len(error["message"]) < 400


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_fits_eighty_columns_and_names_every_flag(spool, verb):
    answer = spool.run(verb, "--help")
    assert answer.exit == 0
    assert answer.err == ""
    assert all(len(line) <= 80 for line in answer.text.splitlines()), answer
    for flag in registry.load(verb).SPEC.flags:
        assert re.search(rf"(?m)^  .*{re.escape(flag.name)}\b", answer.text), flag.name
    assert spool.run(verb, "-h").text == answer.text
    assert spool.run("--help", verb).text == answer.text
    assert spool.run(verb, "--help", "--json").data == {"text": answer.text}
    assert spool.files() == []


def test_the_overview_names_every_verb(spool):
    answer = spool.run("--help")
    assert answer.exit == 0
    for verb in VERBS:
        assert re.search(rf"(?m)^  {verb} ", answer.text)
    assert all(len(line) <= 80 for line in answer.text.splitlines())
    assert spool.run("-h").text == answer.text
    assert spool.run("--help", "--json").data == {"text": answer.text}


def test_help_is_answered_where_nothing_else_would_be(spool):
    (spool.path / ".spoolctl").mkdir()
    (spool.path / ".spoolctl" / "config.json").write_text("{broken")
    assert spool.run("prune", "--help").exit == 0
    assert spool.run("show", "--help").exit == 0
    assert spool.run("list", "--limit", "x", "--help").exit == 0
    assert spool.run("show", "--help", "--no-such-flag", "1", "2").exit == 0
    assert spool.run("list", "--no-such-flag", "--help").code == "UNKNOWN_FLAG"


def test_the_version(spool):
    assert spool.run("--version").text == f"spoolctl {__version__}\n"
    assert spool.run("--version", "--json").data == {"version": __version__}
    assert spool.run("--json", "--version").data == {"version": __version__}
    assert spool.run("list", "--version", "--json").code == "UNKNOWN_FLAG"


@pytest.mark.parametrize("word", ["--help=1", "-h=x", "--version=2", "--help="])
def test_a_value_on_help_or_version_is_refused(spool, word):
    refused(spool.run(word, "--json"))
    if not word.startswith("--version"):
        refused(spool.run("list", word, "--json"))


# --- flags ------------------------------------------------------------------------------------------------


def test_a_flag_takes_its_value_behind_a_blank_or_an_equals_sign(spool):
    for words in (("--note", "a=b"), ("--note=a=b",)):
        assert spool.show(spool.add(*words, "--", "true"))["job"]["note"] == "a=b"
    assert spool.show(spool.add("--note=", "--", "true"))["job"]["note"] == ""
    assert spool.show(spool.add("--note", "", "--", "true"))["job"]["note"] == ""
    assert spool.show(spool.add("-q", "x", "--", "true"))["job"]["queue"] == "x"
    assert spool.show(spool.add("-q=y", "--", "true"))["job"]["queue"] == "y"


@pytest.mark.parametrize(
    "words", [("--prio", "1"), ("--prio=1",), ("--pri",), ("--jso",), ("--q", "x"), ("-qx",)]
)
def test_flags_are_never_abbreviated(spool, words):
    assert spool.run("add", "--json", *words, "--", "true").code == "UNKNOWN_FLAG"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("--quue", "--queue"), ("--priorty=1", "--priority"), ("--jsno", "--json"), ("--nothing-like-it", None),
     ("-x", "-h"), ("--queue ", "--queue"), ("--Queue", "--queue")],
)  # fmt: skip
def test_an_unknown_flag_suggests_the_nearest(spool, word, meant):
    error = refused(spool.run("add", "--json", word, "--", "true"), "UNKNOWN_FLAG")
    if word == "-x":  # as near to -h as to the other short flags
        assert error["did_you_mean"] in ("-h", "-c", "-q")
    else:
        assert error["did_you_mean"] == meant


@pytest.mark.parametrize("word", ["--quue", "--jsn", "-v", "--verbose"])
def test_an_unknown_flag_before_the_verb(spool, word):
    refused(spool.run(word, "list", "--json"), "UNKNOWN_FLAG")


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_that_takes_a_value_misses_it(spool, verb):
    """At the end, before `--`, and where another flag of the verb stands in its place."""
    spec = registry.load(verb).SPEC
    for flag in spec.flags:
        if flag.type is None:
            continue
        others = ["--json", "--help", "--json=1", *(f.name for f in spec.flags if f.dest in ("db", "queue"))]
        for following in ([], ["--"], *([other] for other in others)):
            answer = spool.run("--json", verb, flag.name, *following)
            refused(answer, flag=flag.name, value=None)
        if flag.short and flag.short != flag.name:
            refused(spool.run("--json", verb, flag.short), flag=flag.name, value=None)
    assert spool.files() == []


def test_db_before_the_verb_misses_its_value(spool):
    for words in (
        ("--db",),
        ("--db", "--json", "list"),
        ("--db", "--", "list"),
        ("--db", "--json=1", "list"),
    ):
        refused(spool.run(*words), flag="--db", value=None)


@pytest.mark.parametrize("verb", VERBS)
def test_a_single_flag_given_twice_is_refused_and_a_repeatable_one_is_not(verb):
    spec = registry.load(verb).SPEC
    for flag in spec.flags:
        if flag.dest == "help":
            continue
        line = valid_line(spec, flag.dest)
        words = [flag.name, valid_word(flag)] if flag.type else [flag.name]
        if flag.repeat:
            again = [flag.name, flag.type.probes()["valid"][1]]
            argv.parse(spec, again + line)
            continue
        with pytest.raises(SpoolctlError) as caught:
            argv.parse(spec, words + line)
        assert caught.value.code == "INVALID_INPUT", flag.name
        assert "twice" in caught.value.message
        assert caught.value.detail["flag"] == flag.name


def test_json_before_and_behind_the_verb_is_given_twice(spool):
    refused(spool.run("--json", "list", "--json"), flag="--json")
    refused(spool.run("--db", "a", "list", "--json", "--db", "b"), flag="--db")


@pytest.mark.parametrize("verb", VERBS)
def test_a_value_on_a_switch_is_refused(spool, verb):
    spec = registry.load(verb).SPEC
    for flag in spec.flags:
        if flag.type is None:
            for value in ("", "1", "true", "false"):
                json = [] if flag.dest == "json" else ["--json"]
                refused(spool.run(verb, *json, f"{flag.name}={value}"), flag=flag.name)


@pytest.mark.parametrize("verb", VERBS)
def test_excluded_pairs_are_refused(verb):
    spec = registry.load(verb).SPEC
    for a, b in spec.exclusive:
        line = valid_line(spec, a, b)
        with pytest.raises(SpoolctlError) as caught:
            argv.parse(spec, line)
        assert caught.value.code == "INVALID_INPUT", (a, b)
        assert "exclude" in caught.value.message, (a, b, line)


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_that_needs_another_is_refused_without_it(verb):
    spec = registry.load(verb).SPEC
    for dest, needed in spec.needs.items():
        line = valid_line(spec, dest, without=(needed,))
        with pytest.raises(SpoolctlError) as caught:
            argv.parse(spec, line)
        assert caught.value.code == "INVALID_INPUT", (dest, needed)
        assert caught.value.detail["flag"] == spec.flag(dest).name


@pytest.mark.parametrize(
    ("verb", "pair"),
    [
        ("add", ("after", "at")), ("events", ("wait", "follow")), ("events", ("limit", "follow")),
        ("events", ("max_events", "wait")), ("events", ("idle_timeout", "wait")), ("output", ("raw", "json")),
        ("status", ("watch", "json")),
    ],
)  # fmt: skip
def test_the_exclusions_the_contract_names_are_declared(verb, pair):
    spec = registry.load(verb).SPEC
    if not all(map(spec.flag, pair)):
        pytest.skip("the flag is not there yet")
    declared = {frozenset(p) for p in spec.exclusive}
    if frozenset(pair) not in declared:
        with pytest.raises(SpoolctlError) as caught:  # or one follows from what the flags need
            argv.parse(spec, valid_line(spec, *pair))
        assert caught.value.code == "INVALID_INPUT"


@pytest.mark.parametrize(
    ("verb", "dest", "needed"),
    [
        ("events", "max_events", "follow"), ("events", "idle_timeout", "follow"),
        ("events", "wait_timeout", "wait"), ("output", "idle_timeout", "follow"),
        ("output", "all_attempts", "follow"), ("add", "key_scope", "key"),
    ],
)  # fmt: skip
def test_the_needs_the_contract_names_are_declared(verb, dest, needed):
    spec = registry.load(verb).SPEC
    if not spec.flag(dest):
        pytest.skip("the flag is not there yet")
    line = valid_line(spec, dest, without=(needed,))
    with pytest.raises(SpoolctlError) as caught:
        argv.parse(spec, line)
    assert caught.value.code == "INVALID_INPUT"
    argv.parse(spec, valid_line(spec, dest, needed))


@pytest.mark.parametrize("verb", VERBS)
def test_a_stray_argument_is_refused(spool, verb):
    spec = registry.load(verb).SPEC
    if any(arg.nargs in ("*", "+", "remainder") for arg in spec.args):
        return
    words = ["1"] * sum(1 for arg in spec.args) + ["stray"]
    required = [word for word in valid_line(spec) if word.startswith("-")]
    answer = spool.run(verb, "--json", *required, *words)
    refused(answer, value="stray")


NUMBERS = Verb(
    "numbers",
    "for this test",
    args=(Arg("WORDS", Integer(-5, 5), "*"),),
    flags=(
        Flag("--n", Integer(-5, 5)),
        Flag("--word", Command(), short="-w"),
        Flag("--way", Choice("up", "down")),
    ),
)


@pytest.mark.parametrize("words", [["--n", "-3"], ["--n=-3"]])
def test_negative_numbers_are_values(words):
    args = argv.parse(NUMBERS, words)
    assert args.n == -3
    assert args.given == {"n"}


def test_negative_numbers_are_arguments():
    args = argv.parse(NUMBERS, ["-1", "--n", "-2", "-3"])
    assert (args.n, args.words) == (-2, [-1, -3])
    with pytest.raises(SpoolctlError) as caught:
        argv.parse(NUMBERS, ["-.5"])
    assert caught.value.code == "INVALID_INPUT"


def test_an_unknown_flag_may_be_a_value_and_a_known_one_not():
    assert argv.parse(NUMBERS, ["--word", "-x"]).word == "-x"
    assert argv.parse(NUMBERS, ["-w", "--unknown"]).word == "--unknown"
    assert argv.parse(NUMBERS, ["--word=--n"]).word == "--n"
    assert argv.parse(NUMBERS, ["--word", "-"]).word == "-"
    assert argv.parse(NUMBERS, ["--word=--"]).word == "--"
    for known in ("--n", "--n=1", "-w", "--json", "-h", "--db"):
        with pytest.raises(SpoolctlError) as caught:
            argv.parse(NUMBERS, ["--word", known])
        assert caught.value.detail == {"flag": "--word", "value": None}


def test_an_enumerated_value_suggests_the_nearest(spool):
    error = refused(spool.run("add", "--json", "--key", "k", "--key-scope", "actve", "--", "true"))
    assert error["did_you_mean"] == "active"
    assert error["detail"]["choices"] == ["active", "kept"]
    error = refused(spool.run("list", "--json", "--state", "queued,runing"))
    assert error["did_you_mean"] == "running"


def test_a_long_value_is_cut_in_the_answer(spool):
    for word in ("9" * 100_000, "x" * 100_000, "\x1b" * 100_000):
        answer = spool.run("list", "--json", "--limit", word)
        assert len(answer.out) < 6000
        assert len(answer.err) < 3000


@pytest.mark.parametrize("verb", VERBS)
def test_db_belongs_to_the_verbs_that_resolve_the_database(spool, verb):
    spec = registry.load(verb).SPEC
    path = str(spool.path / "x.db")
    if not spec.db:
        for words in ((verb, "--db", path), ("--db", path, verb)):
            answer = spool.run(*words, "--json")
            refused(answer, "UNKNOWN_FLAG")
        return
    line = valid_line(spec)
    assert argv.parse(spec, ["--db", path, *line]).db == path


def test_without_a_verb_db_is_refused(spool):
    assert spool.run("--db", "x").exit == 1
    assert spool.run("--db", "x", "--json", "--help").code == "UNKNOWN_FLAG"
    assert spool.run("--db", "x", "--json", "--version").code == "UNKNOWN_FLAG"


def test_db_may_stand_before_the_verb(spool):
    path = spool.path / "a b" / "mine.db"
    job = spool.run("--db", str(path), "--json", "add", "--", "true")
    assert job.data["job_id"] == 1
    assert path.exists()
    assert spool.run(f"--db={path}", "list", "--json").data["count"] == 1


def test_next_commands_and_hints_repeat_db_where_it_came_as_a_flag(spool):
    words = ("--db", str(spool.path / "a b" / "q.db"))
    answer = spool.run("add", "--json", *words, "--", "true")
    assert answer.commands
    for line in answer.commands:
        assert f"--db '{words[1]}'" in line
    error = spool.run("show", "--json", *words, "99").error
    if error["remediation"].startswith("spoolctl "):
        assert f"--db '{words[1]}'" in error["remediation"]
    assert "--db" not in spool.run("add", "--json", "--", "true").commands[0]


# --- add's argv -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["--", "echo", "hi"], ["echo", "hi"]),
        (["echo", "hi"], ["echo", "hi"]),
        (["--", "echo", "--", "x"], ["echo", "--", "x"]),
        (["echo", "--", "x"], ["echo", "--", "x"]),
        (["echo", "--", "--json", "-n"], ["echo", "--", "--json", "-n"]),
        (["--", "--", "x"], ["--", "x"]),
        (["--", "-n", "--json", "--queue"], ["-n", "--json", "--queue"]),
        (["echo", "-5", "-", "-.5"], ["echo", "-5", "-", "-.5"]),
        (["--", "a", ""], ["a", ""]),
        (
            ["--", "a b", "*", "$HOME", "it's", "n\nl", "\ttab"],
            ["a b", "*", "$HOME", "it's", "n\nl", "\ttab"],
        ),
        (["-c", "echo $HOME | wc"], ["sh", "-c", "echo $HOME | wc"]),
        (["-c=x"], ["sh", "-c", "x"]),
        (["-c", "-x"], ["sh", "-c", "-x"]),
        (["--priority", "-3", "echo", "x"], ["echo", "x"]),
    ],
)
def test_what_becomes_the_command(spool, words, stored):
    assert spool.show(spool.add(*words))["job"]["argv"] == stored


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "MISSING_REQUIRED"), (["--"], "MISSING_REQUIRED"), (["-c", ""], "MISSING_REQUIRED"),
        (["-c="], "MISSING_REQUIRED"), (["-c"], "INVALID_INPUT"), (["-c", "x", "y"], "INVALID_INPUT"),
        (["-c", "x", "--", "y"], "INVALID_INPUT"), (["--", ""], "INVALID_INPUT"), ([""], "INVALID_INPUT"),
        (["echo", "-n", "x"], "INVALID_INPUT"), (["echo", "--queue", "x"], "INVALID_INPUT"),
        (["echo", "--unknown"], "INVALID_INPUT"), (["echo", "-h"], "INVALID_INPUT"),
        (["--unknown", "echo"], "UNKNOWN_FLAG"), (["--", "a\0b"], "INVALID_INPUT"),
        (["-c", "a\0b"], "INVALID_INPUT"),
    ],
)  # fmt: skip
def test_what_cannot_become_a_command(spool, words, code):
    answer = spool.run("add", "--json", *words)
    assert answer.code == code, answer
    assert spool.files() == []


def test_a_flag_behind_the_first_word_is_answered_with_the_dashes_to_write(spool):
    error = spool.run("add", "--json", "echo", "-n").error
    assert "-- echo" in error["remediation"]


def test_a_nameless_job_of_any_bytes_survives(spool):
    answer = spool.cli("add", "--json", "--", "printf", os.fsdecode(b"a\xffb\xc3"))
    assert answer.data["job_id"] == 1
    assert spool.show(1)["job"]["argv"] == ["printf", "a\ufffdb\ufffd"]


# --- ids --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", "key:", "9" * 30, "1-2", ""])
def test_a_bad_id_is_invalid_before_the_database_is_looked_at(spool, word):
    spool.db.parent.mkdir()
    spool.db.write_bytes(b"garbage" * 1000)
    answer = spool.run("show", "--json", word)
    refused(answer, value=word)


# --- the order of refusal ---------------------------------------------------------------------------------


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


# --- real processes ---------------------------------------------------------------------------------------


def test_the_real_command_answers_as_the_one_in_process(spool):
    for words in (
        ["--version"],
        ["--help"],
        ["nope"],
        ["list", "--json"],
        ["list", "--limit", "x", "--json"],
    ):
        inner, outer = spool.run(*words), spool.cli(*words)
        assert inner.exit == outer.exit
        assert inner.err == outer.err
        if inner.json is None:
            assert inner.out == outer.out
        else:
            assert inner.json["data"] == outer.json["data"]
            assert inner.json["errors"] == outer.json["errors"]


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
    {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"},
]


@pytest.mark.parametrize("locale", LOCALES)
def test_answers_do_not_depend_on_the_locale(spool, locale):
    """QUALITY, case 11: the words are bytes, and UTF-8 is what they are read as."""

    def call(*words):
        done = subprocess.run(
            command(*words),
            cwd=spool.path,
            env=clean_env(**locale),
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout, done.stderr

    note = "é \U0001f600".encode()
    status, out, err = call(b"add", b"--json", b"--note", note, b"--", b"echo", b"\xff\xc3\xa9")
    assert (status, err) == (0, b"")
    assert out.isascii()
    status, out, err = call(b"show", b"--json", b"1")
    job = strict_json(out.decode("ascii"))["data"]["job"]
    assert job["note"] == "é \U0001f600"
    assert job["argv"] == ["echo", "\ufffdé"]
    status, out, err = call(b"nop\xc3\xa9\xff")
    assert status == 1
    assert err.decode("utf-8").splitlines()[0].startswith("spoolctl: UNKNOWN_COMMAND: ")
    status, out, err = call(b"list")
    assert status == 0
    assert "é" in out.decode("utf-8")


def gone_reader():
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["list", "--json"], ["list"], ["--help", "--json"], ["list", "--help"]],
)
def test_a_reader_that_went_away_ends_the_call_quietly(spool, words):
    spool.add()
    writer = gone_reader()
    process = spool.start(*words, stdout=writer)
    os.close(writer)
    answer = finish_raw(process)
    assert answer == (0, b""), words


def test_head_takes_what_it_wants(spool):
    """QUALITY, case 26."""
    for _ in range(20):
        spool.add("--note", "x" * 10_000, "--", "true")
    for tail in ("head -c1", "true", "head -1 >/dev/null"):
        line = f'set -o pipefail; "$@" | {tail}; echo "${{PIPESTATUS[0]}}" >&2'
        done = subprocess.run(
            ["bash", "-c", line, "bash", *command("list", "--json")],
            cwd=spool.path, env=clean_env(), capture_output=True,
        )  # fmt: skip
        assert done.stderr == b"0\n", tail


def finish_raw(process):
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["list", "--json"], ["list"], ["--help"], ["--version", "--json"]])
def test_a_full_device_under_stdout_is_an_error_on_stderr(spool, words):
    spool.add()
    with open("/dev/full", "wb") as full:
        status, err = finish_raw(spool.start(*words, stdout=full))
    assert status in (3, 4)
    assert re.match(rb"spoolctl: [A-Z_]+: .*No space left on device", err)
    assert b"Traceback" not in err
    with open("/dev/full", "wb") as full:
        assert finish_raw(spool.start(*words, stdout=full, stderr=full))[0] in (3, 4)


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_descriptor_never_lets_an_answer_land_in_a_file(spool, closing):
    line = f'exec "$@" {closing}'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *command("add", "--json", "--", "true")],
        cwd=spool.path, env=clean_env(), capture_output=True,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 3)
    for path in spool.db.parent.iterdir():
        if path.is_file() and path.name != "queue.db" and not path.name.startswith("queue.db-"):
            assert b"data_hash" not in path.read_bytes(), path
    assert spool.run("list", "--json").data["count"] == 1


@pytest.mark.parametrize(("number", "words"), [
    (signal.SIGINT, ["add", "--json", "--from", "-"]), (signal.SIGTERM, ["add", "--json", "--from", "-"]),
    (signal.SIGINT, ["add", "--from", "-"]), (signal.SIGHUP, ["add", "--json", "--from", "-"]),
])  # fmt: skip
def test_a_call_that_waits_dies_by_the_signal_and_says_nothing(spool, number, words):
    process = spool.start(*words, stdin=subprocess.PIPE)
    wait_until(lambda: reads_stdin(process.pid), message="the call to read its input")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert out == b""
    assert b"Traceback" not in err
    assert spool.files() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_an_interrupted_wait_dies_by_the_signal(spool, number, json):
    job = spool.add("--after", "1h", "--", "true")
    process = spool.start("wait", *json, str(job))
    wait_until(lambda: sleeps(process.pid, spool), message="the call to wait")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert out == b""
    assert b"Traceback" not in err


def reads_stdin(pid):
    """Whether a process has begun to read: it sleeps in a system call on descriptor 0."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            return file.read().split()[:2] == ["0", "0x0"]
    except OSError:
        return False


def sleeps(pid, spool):
    """Whether a call has opened the database and sleeps."""
    try:
        names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return str(spool.db) in names and state == "S"


def test_the_package_runs_from_any_directory(tmp_path):
    assert cli("--version", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}).text.startswith("spoolctl ")


def test_a_directory_that_is_gone_is_a_refusal_and_no_fault(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
    for words in (("list", "--json"), ("add", "--json", "--", "true")):
        done = subprocess.run(
            ["bash", "-c", f"{line}", "bash", str(gone), *command(*words)],
            env=clean_env(),
            capture_output=True,
        )
        gone.mkdir()
        assert done.returncode == 1, done
        assert strict_json(done.stdout.decode())["errors"][0]["code"] == "INVALID_INPUT"


def test_finish_reads_a_real_answer(spool):
    assert finish(spool.start("list", "--json"), check=0).data["count"] == 0
    assert run("--version").exit == 0
