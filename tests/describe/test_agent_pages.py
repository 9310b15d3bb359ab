"""brief and robot-docs: short enough, whole, and every command in them is real."""

from __future__ import annotations

import math
import re
import shlex

import pytest

from spoolctl import argv, registry
from spoolctl.describe import brief, tokens

COMMAND = re.compile(r"`((?:nohup )?spoolctl [^`]+)`")


def estimate(text):
    """As the description of brief states it."""
    return max(math.ceil(len(text) / 4), len(re.findall(r"\w+|[^\w\s]", text)))


def parses(line):
    """Whether a line is a call of ours, with values where the page has placeholders."""
    words = shlex.split(line.removeprefix("nohup ").partition(" > ")[0])
    verb, rest = argv.split_verb(words[1:])
    if verb is not None:
        argv.parse(registry.load(verb).SPEC, rest)


def test_the_brief_keeps_within_its_budget_and_names_every_verb(spool):
    page = spool.run("brief", "--json").data
    assert page["budget_tokens"] == 700
    assert page["approx_tokens"] == estimate(page["text"]) <= 700
    for verb in registry.VERBS:
        assert f"\n  {verb}: " in page["text"]
    assert page["text"] == spool.run("brief").text
    assert "approx_tokens is an estimate: the larger of a quarter" in registry.load("brief").SPEC.description


@pytest.mark.parametrize("text", ["", "a", "one two", "--max-retries=3", "a_b c.d", "x" * 4001, "é ü\n- `q`"])
def test_the_estimate_is_what_it_says(text):
    assert tokens.estimate(text) == estimate(text)


def test_every_line_of_the_brief_is_a_call():
    page = brief.text(registry.specs())
    lines = re.findall(r"^  (spoolctl .+?)(?:   \(.*)?$", page, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        parses(re.sub(r"\bID\b", "7", line))
    for line in re.findall(r"(spoolctl [^;\n]+)", page[page.index("More: ") :]):
        parses(line.replace("VERB", "add").replace("--verb V", "--verb add"))


def test_the_guide_has_its_sections_and_every_command_in_it_parses(spool):
    page = spool.run("robot-docs", "guide", "--json").data
    titles = [section["title"] for section in page["sections"]]
    assert titles == [
        "Discover", "Check readiness", "Submit many, then wait", "The verdict in one call",
        "Keys, tags and hand-over between agents that die", "Safety gates", "Streaming", "Recovery",
    ]  # fmt: skip
    assert page["text"] == spool.run("robot-docs", "guide").text
    assert page["approx_tokens"] == estimate(page["text"])
    for section in page["sections"]:
        assert section["bullets"]
        assert f"## {section['title']}\n" in page["text"]
        for bullet in section["bullets"]:
            assert f"- {bullet}\n" in page["text"]
    commands = COMMAND.findall(page["text"])
    assert len(commands) >= 25
    for line in commands:
        parses(line)


def test_the_guide_speaks_of_every_event_and_gate_that_there_is(spool):
    from spoolctl.contract import states

    text = spool.run("robot-docs", "guide").text
    for spec in registry.specs().values():
        assert spec.safety in text
    assert "The words of event: " + ", ".join(states.EVENTS[:-1]) + "." in text
    assert states.EVENTS[-1:] == states.OF_LEASES


def test_what_the_guide_says_can_be_lived(spool):
    """Its day, command by command: submit, work, wait, the verdict, a second add, what follows."""
    (spool.path / "jobs.txt").write_text('echo one\n{"command": "echo two; exit 3", "max_retries": 0}\n')
    assert spool.run("doctor", "--json", check=0).data["ready"] is True
    assert spool.run("add", "--json", "--from", "jobs.txt", "--tag", "run=42").data["added"] == 2
    first = spool.run("add", "--json", "--key", "build-4711", "--tag", "run=42", "--", "true").data
    again = spool.run("add", "--json", "--key", "build-4711", "--tag", "run=42", "--", "true").data
    assert again["deduplicated"] is True
    assert again["job_id"] == first["job_id"]
    spool.run("work", "--drain", "-j", "4", check=0)
    waited = spool.run(
        "wait", "--json", "--tag", "run=42", "--timeout", "30m", "--tail-bytes", "2048", check=6
    )
    assert waited.data["counts"] == {"done": 2, "dead": 1}
    assert [
        job["id"] for job in spool.run("list", "--json", "--tag", "run=42", "--state", "dead").data["jobs"]
    ] == [2]
    verdict = spool.run("feedback", "--json", "2").data
    assert (verdict["succeeded"], verdict["exit_code"]) == (False, 3)
    assert verdict["streams"]["stdout"]["tail"] == "two\n"
    assert spool.run("feedback", "--json", "key:build-4711").data["succeeded"] is True
    assert spool.run("retry", "--json", "--all-dead", "--tag", "run=42").data["retried"] == 1
    page = spool.run("events", "--json", "--since-id", "0")
    follow = spool.run("events", "--json", "--since-id", str(page.meta["pagination"]["cursor"]))
    assert follow.data["count"] == 0
    assert spool.run("prune", "--json", "--older-than", "7d", "--dry-run").data["matched"] == 0
