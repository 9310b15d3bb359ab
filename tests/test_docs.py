"""What the pages say of the code must exist: the files they name, the promises they number."""

from __future__ import annotations

import re

import pytest
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests|scripts|spoolctl|docs|work|store|verbs|contract)/[\w/.*]+)`", text))
    missing = [
        name
        for name in sorted(named)
        if not (ROOT / name).exists() and not (ROOT / "spoolctl" / name).exists()
    ]
    assert not [name for name in missing if "*" not in name], missing
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link


def test_every_promise_has_its_mechanism_its_test_and_its_end():
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (?=\d+\. )", text, flags=re.MULTILINE)[1:]
    assert [part.split(".")[0] for part in parts] == [str(n) for n in range(1, 11)]
    for part in parts:
        for word in ("**Promise.**", "**Mechanism.**", "**Attacked by**", "**Where it ends.**"):
            assert word in part, (word, part[:60])
        assert re.search(r"`(tests|scripts)/", part), part[:60]
