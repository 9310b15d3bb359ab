"""The helper that every test calls the tool by validates what the tool says, and no test goes around it."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest
from shells import Shell
from support import checked_line, document, hash_of, run

TESTS = Path(__file__).resolve().parent

# --- nobody reads an answer by himself --------------------------------------------------------------------

# Who may read JSON as it is: (file, function, or "" for all of it) and what it is that he reads.
READERS = {
    ("support.py", "strict_json"): "the reader that the helper validates with",
    ("support.py", "check_envelope"): "validates",
    ("support.py", "document"): "validates",
    ("support.py", "checked_line"): "validates",
    ("killing.py", "killed_at_every_line"): "rows of its own script; the answers in them are validated",
    ("verbs/test_events.py", "signalled_at_every_line"): "the same",
    ("contract/test_jsontext.py", ""): "values that the writer shows, which are no answers",
    ("verbs/test_doctor.py", "_mirror"): "makes up the mirror of an error; the answer is validated",
    ("work/test_chaos.py", "chaos"): "the table of scripts/chaos.py",
    ("verbs/test_add_from.py", "test_a_line_means_the_same_whatever_lines_came_before"): "stored commands",
    ("test_bench.py", "told"): "the lines of scripts/bench.py",
    ("test_recipes.py", "Site"): "what a job's command noted",
    ("contract_tester/envelope.py", "strict"): "the tester knows nothing of ours, and validates by itself",
    ("contract_tester/runner.py", "Runner"): "the same",
    ("broken_tool.py", "Told"): "an answer to be made wrong",
    ("test_support.py", "changed"): "an answer to be made wrong",
}
DECODING = ("load", "loads", "JSONDecoder", "decoder")


def readers(source: str) -> list[str]:
    """The function, or class, around each place that reads JSON; empty for one around which there is none."""
    found = []
    for top in ast.parse(source).body:
        nodes = list(ast.walk(top))
        inner = getattr(top, "name", "")
        names = {alias.asname for node in nodes if isinstance(node, ast.Import)
                 for alias in node.names if alias.name == "json" and alias.asname}  # fmt: skip
        found += [inner for _ in names]  # under another name it would not be seen
        for node in nodes:
            if isinstance(node, ast.Attribute):
                reads = node.attr == "strict_json" or (
                    node.attr in DECODING and isinstance(node.value, ast.Name) and node.value.id == "json"
                )
            elif isinstance(node, ast.ImportFrom):
                taken = {alias.name for alias in node.names}
                reads = "strict_json" in taken or (
                    node.module is not None and node.module.partition(".")[0] == "json"
                )
            else:
                reads = isinstance(node, ast.Name) and node.id == "strict_json"
            if reads:
                found.append(inner)
    return found


def test_no_test_reads_an_answer_around_the_helper():
    found = {
        (str(path.relative_to(TESTS)), name)
        for path in TESTS.rglob("*.py")
        for name in readers(path.read_text(encoding="utf-8"))
    }
    whole = {file for file, name in READERS if not name}
    found = {(file, "" if file in whole else name) for file, name in found}
    assert found - set(READERS) == set(), "read it by run, cli, finish, checked, document or checked_line"
    assert set(READERS) - found == set(), "no longer needed"


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("import json\ndef f(out):\n    return json.loads(out)", ["f"]),
        ("import json\nclass A:\n    def f(self, file):\n        return json.load(file)", ["A"]),
        ("import json\nread = json.JSONDecoder().decode", [""]),
        ("import json\ndef f(lines):\n    return map(json.loads, lines)", ["f"]),
        ("def f(out):\n    from json import loads\n    return loads(out)", ["f"]),
        ("from json.decoder import JSONDecoder", [""]),
        ("import json as j\nx = j.loads('1')", [""]),
        ("from support import strict_json as read", [""]),
        ("import support\ndef f(out):\n    return support.strict_json(out)", ["f"]),
        ("import json\nx = json.dumps({}), spool.json('list'), yaml.loads(''), 'json.loads(x)'", []),
    ],
)
def test_whoever_reads_json_is_found(source, where):
    assert readers(source) == where


# --- what the helper refuses ------------------------------------------------------------------------------


@pytest.fixture
def said(spool):
    """Real answers, as they were printed: of a success, a refusal with facts, and one without."""
    spool.add("--note", "n", "--", "true")
    return {
        "show": spool.run("show", "--json", "1", check=0).out,
        "list": spool.run("list", "--json", "--limit", "x", check=1).out,
        "cancel": spool.run("cancel", "--json", "7", check=1).out,
    }


def changed(out, *path, **to):
    """The answer with other keys at this place, None for those to take away; its hash fits again."""
    answer = json.JSONDecoder().decode(out.decode())
    place = answer
    for key in path:
        place = place[key]
    place.update(to)
    for key in [key for key, value in to.items() if value is None]:
        del place[key]
    answer["meta"]["data_hash"] = hash_of(answer["data"])
    return json.dumps(answer) + "\n"


def test_an_answer_as_it_was_printed_is_taken_as_text_and_as_bytes(said):
    assert document(said["show"], "show", "1", status=0)["data"]["job"]["note"] == "n"
    assert document(said["show"].decode(), "show")["ok"] is True
    assert document(changed(said["show"], "data", "job", note="m"), "show")["data"]["job"]["note"] == "m"
    assert document(said["list"], "list", status=1)["errors"][0]["detail"]["flag"] == "--limit"
    assert document(said["cancel"], "cancel", "7")["errors"][0]["detail"] == {"missing": [7]}


@pytest.mark.parametrize(
    ("verb", "path", "to"),
    [
        ("show", ("data",), {"more": 1}),
        ("show", ("data", "job"), {"more": 1}),
        ("show", ("data", "events", 0), {"more": 1}),
        ("show", ("meta",), {"more": 1}),
        ("show", ("data",), {"attempts": None}),
        ("show", ("data", "job"), {"state": None}),
        ("show", ("meta",), {"request_id": None}),
        ("show", ("data", "job"), {"id": "1"}),
        ("show", ("data", "job"), {"id": 1.5}),
        ("show", ("data", "job"), {"state": "asleep"}),
        ("show", ("data",), {"events": {}}),
        ("list", ("errors", 0), {"code": "NO_SUCH_CODE"}),
        ("list", ("errors", 0), {"exit_code": 3}),
        ("list", ("errors", 0), {"message": ""}),
        ("list", ("errors", 0, "detail"), {"missing": [7]}),
        ("list", ("errors", 0), {"code": "NOT_FOUND"}),
        ("cancel", ("errors", 0, "detail"), {"missing": None}),
        ("cancel", ("errors", 0, "detail"), {"job_id": 7}),
        ("cancel", ("errors", 0), {"code": "CONFLICT", "exit_code": 5}),
        ("cancel", ("errors", 0), {"code": "MISSING_REQUIRED"}),
    ],
)
def test_an_answer_that_does_not_fit_its_schema_is_refused(said, verb, path, to):
    with pytest.raises(AssertionError, match="does not fit its schema"):
        document(changed(said[verb], *path, **to), verb)


def test_an_answer_of_another_verb_another_status_or_with_more_behind_it_is_refused(said):
    out = said["show"]
    with pytest.raises(AssertionError, match="does not fit its schema"):
        document(out, "list")
    with pytest.raises(AssertionError, match="NOT_FOUND. is not one of"):
        document(said["cancel"], "config-validate")
    for verb, status in (("show", 1), ("show", 6), ("list", 0), ("list", 3), ("cancel", 5)):
        with pytest.raises(AssertionError):
            document(said[verb], verb, status=status)
    more = (
        out * 2,
        out + b"{}\n",
        b"note\n" + out,
        out[:-1],
        out[:-3],
        b"",
        b"{}\n",
        b"[]\n",
        changed(out, more=1),
        changed(out, commands=None),
        out.replace(b", ", b",\n"),
    )
    for text in more:
        with pytest.raises(AssertionError):
            document(text, "show")
    twice = out.replace(b'{"ok": true, ', b'{"ok": true, "ok": true, ', 1)
    wrong = out.replace(b'"note": "n"', b'"note": "m"', 1)
    assert twice != out != wrong
    for text, why in ((twice, "a key stands twice"), (wrong, "data_hash")):
        with pytest.raises(AssertionError, match=why):
            document(text, "show")


def test_a_line_of_a_stream_that_does_not_fit_its_schema_is_refused(spool):
    spool.add()
    words = ["events", "--follow", "--json"]
    event, end = run(*words, "--since-id", "0", "--idle-timeout", "0", cwd=spool.path).text.splitlines()
    assert checked_line(event, words)["event"] == "added"
    assert checked_line(end + "\n", words)["control"]["reason"] == "idle_timeout"
    for line in (
        event.replace('"added"', '"born"'), event.replace('"id": 1', '"id": "1"'),
        event.replace("}", ', "more": 1}'), end.replace("idle_timeout", "boredom"),
        event + event, event[:-1], "", "{}", "[]",
    ):  # fmt: skip
        assert line != event
        with pytest.raises(AssertionError):
            checked_line(line, words)


def test_a_shell_that_is_missing_is_a_skip_and_nothing_is_installed(tmp_path, monkeypatch):
    tool = tmp_path / "apt-get"
    tool.write_text("#!/bin/sh\n: >called\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.skip.Exception, match="zsh is not installed"):
        Shell("zsh", tmp_path)
    assert os.listdir(tmp_path) == ["apt-get"]
