"""SPEC 2.3: every rule of the command line."""

from __future__ import annotations

import os
import re

import pytest
from support import refused, valid_line, valid_word

from spoolctl import __version__, argv, registry
from spoolctl.contract.spec import Arg, Flag, Verb
from spoolctl.contract.types import Choice, Command, Integer
from spoolctl.errors import SpoolctlError

VERBS = list(registry.VERBS)


# --- verbs, help, version -------------------------------------------------------------------------------


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


# --- flags ----------------------------------------------------------------------------------------------


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
     ("-x", None), ("--queue ", "--queue"), ("--Queue", "--queue")],
)  # fmt: skip
def test_an_unknown_flag_suggests_the_nearest(spool, word, meant):
    error = refused(spool.run("add", "--json", word, "--", "true"), "UNKNOWN_FLAG")
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
        ("--json", "--db"),
        ("--db", "--json", "list"),
        ("--json", "--db", "--", "list"),
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
        line = valid_line(spec, dest, without=needed)
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
        ("output", "all_attempts", "follow"),
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
    assert error["did_you_mean"] == "queued,running"


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


# --- add's argv -----------------------------------------------------------------------------------------


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


# --- ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", "key:", "9" * 30, "1-2", ""])
def test_a_bad_id_is_invalid_before_the_database_is_looked_at(spool, word):
    spool.db.parent.mkdir()
    spool.db.write_bytes(b"garbage" * 1000)
    answer = spool.run("show", "--json", word)
    refused(answer, value=word)
