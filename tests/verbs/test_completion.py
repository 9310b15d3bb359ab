"""completion: the scripts as an answer, and the words of a queue that they ask for."""

from __future__ import annotations

import pytest

from spoolctl.store import words
from spoolctl.verbs import completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_the_text_and_the_answer(spool, shell):
    data = spool.json("completion", shell)
    assert data["shell"] == shell
    assert data["text"] == spool.run("completion", shell, check=0).text
    assert data["text"].endswith("\n")
    assert spool.files() == []


def said(spool, *tokens):
    answer = spool.run("completion", "--words", *tokens)
    assert (answer.exit, answer.err) == (0, ""), answer
    return answer.text.splitlines()


def test_the_words_of_a_queue_come_newest_first(spool):
    spool.add("--key", "a b'c\"$(x)", "--tag", "run=42", "--tag", "at=h:1", "--", "echo", "two  words", "\t")
    spool.add("--key", "old", "--queue", "builds", "--tag", "run=42", "--", "true")
    spool.json("cancel", "2")
    spool.add("--key", "new", "--queue", "builds", "--tag", "run=43", "-c", "x" * 100)
    assert said(spool, "jobs") == [
        f"3\tqueued sh -c {'x' * 44}...",
        "2\tcanceled true",
        "1\tqueued echo two  words \\t",
    ]
    assert said(spool, "lanes") == ["builds", "default"]
    assert said(spool, "keys") == ["new", "old", "a b'c\"$(x)"]
    assert said(spool, "tags") == ["run=43", "run=42", "at=h:1"]
    assert said(spool, "keys", "--queue", "default") == ["a b'c\"$(x)"]
    assert [line[0] for line in said(spool, "jobs", "-q", "builds")] == ["3", "2"]
    assert said(spool, "tags", "--queue", "nowhere") == []
    assert spool.json("completion", "--words", "lanes") == {
        "words": [{"word": "builds", "description": None}, {"word": "default", "description": None}]
    }
    job = {"word": "2", "description": "canceled true"}
    assert job in spool.json("completion", "--words", "jobs", "--db", str(spool.db))["words"]


def test_what_could_not_be_typed_is_no_word(spool):
    spool.add("--tag", "a=1\n2", "--tag", "b=\x1b[2J", "--tag", "c=3", "--", "true")
    assert said(spool, "tags") == ["c=3"]


@pytest.mark.parametrize("kind", completion.KINDS)
def test_without_a_queue_there_are_no_words_and_none_is_made(spool, kind):
    assert said(spool, kind) == []
    assert spool.json("completion", "--words", kind, "--db", "deep/er/q.db") == {"words": []}
    assert spool.files() == []


def test_only_so_many_jobs_are_looked_at(spool, monkeypatch):
    for n in range(4):
        spool.add("--key", f"k{n}", "--tag", f"n={n}", "--queue", f"l{n}", "--", "true")
    monkeypatch.setattr(words, "NEWEST_JOBS", 2)
    monkeypatch.setattr(words, "NEWEST", 3)
    monkeypatch.setattr(words, "MOST", 2)
    assert [line[0] for line in said(spool, "jobs")] == ["4", "3"]
    assert said(spool, "keys") == ["k3", "k2"]
    assert said(spool, "tags") == ["n=3", "n=2"]
    assert said(spool, "lanes") == ["l0", "l1"]


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ([], "MISSING_REQUIRED"),
        (["bash", "--words", "jobs"], "INVALID_INPUT"),
        (["csh"], "INVALID_INPUT"),
        (["bash", "zsh"], "INVALID_INPUT"),
        (["--words", "nothing"], "INVALID_INPUT"),
        (["bash", "--queue", "x"], "INVALID_INPUT"),
    ],
)
def test_it_is_either_a_shell_or_words(spool, tokens, code):
    assert spool.run("completion", "--json", *tokens).code == code
