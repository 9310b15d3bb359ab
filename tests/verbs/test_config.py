"""config-show and config-validate: which settings are in force, and what a file may hold."""

from __future__ import annotations

import json
import os

import pytest


def config(spool, text):
    folder = spool.path / ".spoolctl"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / "config.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return str(file)


def test_every_setting_says_where_it_comes_from_and_nothing_is_made(spool):
    data = spool.json("config-show")
    assert data == {
        "config_path": f"{spool.path}/.spoolctl/config.json",
        "config_exists": False,
        "config_valid": True,
        "values": {
            "db_path": f"{spool.path}/.spoolctl/queue.db", "defaults.timeout": 300, "defaults.max_retries": 3,
            "defaults.max_crashes": 10, "defaults.queue": "default", "capture_env": ["PATH", "VIRTUAL_ENV"],
        },
        "sources": dict.fromkeys(data["values"], "default"),
        "precedence": ["flag", "environment", "project_config", "default"],
        "ignored_keys": [],
    }  # fmt: skip
    assert spool.files() == []


def test_the_place_of_the_database_follows_the_precedence(spool):
    config(spool, {"db_path": "deep/own.db", "defaults": {"timeout": 5, "colour": 1}, "extra": []})
    folder = spool.path / ".spoolctl"
    data = spool.json("config-show")
    assert data["values"]["db_path"] == f"{folder}/deep/own.db"
    assert data["sources"]["db_path"] == data["sources"]["defaults.timeout"] == "project_config"
    assert data["sources"]["defaults.queue"] == "default"
    assert data["values"]["defaults.timeout"] == 5
    assert data["ignored_keys"] == ["defaults.colour", "extra"]
    named = {"SPOOLCTL_DB": f"{spool.path}/env.db"}
    data = spool.json("config-show", env=named)
    assert (data["values"]["db_path"], data["sources"]["db_path"]) == (named["SPOOLCTL_DB"], "environment")
    data = spool.json("config-show", "--db", "flag.db", env=named)
    assert (data["values"]["db_path"], data["sources"]["db_path"]) == (f"{spool.path}/flag.db", "flag")
    assert spool.run("config-show", "--json", env={"SPOOLCTL_DB": ""}, check=1).code == "INVALID_INPUT"
    text = spool.run("config-show", check=0).text
    assert "ignored keys: defaults.colour, extra" in text and "deep/own.db" in text


def test_a_valid_file_is_told_by_its_keys(spool):
    path = config(spool, {"version": 1, "defaults": {"queue": "q", "timeout": None}, "capture_env": ["A"]})
    data = spool.json("config-validate")
    assert data == {
        "config_path": path, "exists": True, "valid": True, "format": "json", "schema_version": 1,
        "recognized_keys": ["version", "defaults.queue", "defaults.timeout", "capture_env"],
        "unknown_keys": [],
    }  # fmt: skip
    assert spool.json("config-validate", ".spoolctl/config.json") == data
    missing = spool.json("config-validate", "none.json")
    assert (missing["exists"], missing["valid"]) == (False, True)
    assert missing["config_path"] == f"{spool.path}/none.json"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2}', '{"version": true}', '{"db_path": ""}', '{"db_path": 1}',
     '{"defaults": []}',
     '{"defaults": {"timeout": -1}}', '{"defaults": {"max_retries": 1.5}}', '{"defaults": {"queue": "a b"}}',
     '{"capture_env": "PATH"}', '{"capture_env": ["A=B"]}', "\ufeff{}", '{"a": NaN}', "[" * 100_000],
)  # fmt: skip
def test_what_is_malformed_is_refused_by_every_verb_that_reads_it(spool, text):
    path = config(spool, text)
    for call in (("config-validate",), ("config-validate", path), ("config-show",), ("list",)):
        answer = spool.run(*call, "--json", check=1)
        assert answer.code == "INVALID_INPUT" and path in answer.error["message"], call


def test_unknown_keys_are_refused_with_the_nearest_known_one(spool):
    config(spool, {"defaults": {"timeuot": 5}, "x": 1})
    answer = spool.run("config-validate", "--json", check=1)
    assert answer.code == "INVALID_INPUT"
    assert "defaults.timeuot, x" in answer.error["message"]
    assert answer.error["did_you_mean"] == "defaults.timeout"
    assert spool.run("list", "--json", check=0).data["count"] == 0, "ignored at run time"


def test_what_is_no_file_is_refused_without_a_hang(spool):
    os.mkfifo(spool.path / "pipe")
    for path in ("pipe", ".", "/dev/null"):
        assert spool.cli("config-validate", "--json", path, timeout=20, check=1).code == "INVALID_INPUT"
    assert spool.run("config-validate", "--db", "x", "--json", check=1).code == "UNKNOWN_FLAG"
