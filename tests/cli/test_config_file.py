"""SPEC 2.5: the project's config file at run time."""

from __future__ import annotations

import json

import pytest


def configure(folder, **config):
    (folder / ".spoolctl").mkdir(exist_ok=True)
    (folder / ".spoolctl" / "config.json").write_text(json.dumps(config))


BROKEN = [
    "", "{", "[]", "null", "1", '"text"', '{"version": 2}', '{"version": "1"}', '{"version": true}',
    '{"version": 1.0}', '{"version": null}', '{"db_path": 1}', '{"db_path": ""}', '{"db_path": null}',
    '{"defaults": []}', '{"defaults": {"timeout": "x"}}', '{"defaults": {"timeout": 0}}',
    '{"defaults": {"max_retries": -1}}', '{"defaults": {"max_retries": 1.5}}',
    '{"defaults": {"max_retries": null}}',
    '{"defaults": {"queue": "a b"}}', '{"defaults": {"queue": 1}}', '{"defaults": {"max_crashes": true}}',
    '{"capture_env": "PATH"}', '{"capture_env": [1]}', '{"capture_env": ["A=b"]}', '{"capture_env": [""]}',
    '{"defaults": {"timeout": NaN}}', '{"version": 1} x', '{"a": ' * 5000, '{"defaults": {"timeout": 1e999}}',
]  # fmt: skip


@pytest.mark.parametrize("content", BROKEN, ids=lambda text: text[:40] or "empty")
def test_a_malformed_config_is_refused_by_every_verb_that_reads_it(spool, content):
    (spool.path / ".spoolctl").mkdir()
    (spool.path / ".spoolctl" / "config.json").write_text(content)
    for words in (["list"], ["status"], ["add", "--", "true"], ["list", "--db", "q.db"], ["work", "--once"]):
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code == "INVALID_INPUT", (words, answer)
    assert spool.files() == [".spoolctl", ".spoolctl/config.json"]


def test_a_config_that_is_not_utf8_or_no_file_is_refused(spool):
    (spool.path / ".spoolctl").mkdir()
    path = spool.path / ".spoolctl" / "config.json"
    path.write_bytes(b'{"db_path": "\xff"}')
    assert spool.run("list", "--json").code == "INVALID_INPUT"
    path.unlink()
    path.mkdir()
    assert spool.run("list", "--json").code == "INVALID_INPUT"
    path.rmdir()
    path.symlink_to("nowhere")
    assert spool.run("list", "--json").exit == 0


def test_a_huge_config_is_refused_in_bounded_memory(spool):
    (spool.path / ".spoolctl").mkdir()
    with open(spool.path / ".spoolctl" / "config.json", "wb") as file:
        file.truncate(1 << 32)
    assert spool.run("list", "--json").code == "INVALID_INPUT"


def test_unknown_keys_are_ignored_at_run_time(spool):
    configure(spool.path, version=1, colour="red", defaults={"queue": "mine", "size": 3})
    assert spool.json("add", "--", "true")["queue"] == "mine"


def test_the_defaults_of_the_config_are_used_and_flags_go_before_them(spool):
    configure(
        spool.path,
        version=1,
        defaults={"timeout": "2m", "max_retries": 7, "max_crashes": None, "queue": "mine"},
    )
    job = spool.show(spool.add())["job"]
    assert (job["timeout_seconds"], job["max_retries"], job["max_crashes"], job["queue"]) == (
        120,
        7,
        None,
        "mine",
    )
    job = spool.show(spool.add("--timeout", "5", "--max-retries", "0", "-q", "x", "--", "true"))["job"]
    assert (job["timeout_seconds"], job["max_retries"], job["queue"]) == (5, 0, "x")


def test_an_empty_config_changes_nothing(spool):
    configure(spool.path)
    job = spool.show(spool.add())["job"]
    assert (job["timeout_seconds"], job["max_retries"], job["max_crashes"], job["queue"]) == (
        300,
        3,
        10,
        "default",
    )


def test_a_config_alone_does_not_hide_that_there_is_no_database(spool):
    configure(spool.path, version=1)
    assert spool.json("list")["count"] == 0
    assert spool.files() == [".spoolctl", ".spoolctl/config.json"]


def test_the_real_command_finds_the_same_place(spool):
    spool.add()
    below = spool.path / "below"
    below.mkdir()
    assert spool.cli("list", "--json", cwd=below, env={"PWD": str(below)}).data["count"] == 1
