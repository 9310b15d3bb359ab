"""SPEC 2.5: which database a call means, what it makes and with which modes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest
from support import Spool, clean_env, command, strict_json

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
STRANGER = 54321


def place(spool, *words, **options):
    """(path, source) of the database a call would use."""
    values = spool.json("config-show", *words, **options)
    return values["values"]["db_path"], values["sources"]["db_path"]


def configure(folder, **config):
    (folder / ".spoolctl").mkdir(exist_ok=True)
    (folder / ".spoolctl" / "config.json").write_text(json.dumps(config))


def fill(spool, *words, note="", **options):
    """Add a job that can be told from others."""
    spool.json("add", *words, "--note", note, "--", "true", **options)


def notes(spool, *words, **options):
    return [job["note"] for job in spool.json("list", *words, **options)["jobs"]]


# --- precedence -------------------------------------------------------------------------------------------


def test_the_flag_goes_before_the_environment_the_config_and_the_default(spool):
    configure(spool.path, version=1, db_path="config.db")
    env = {"SPOOLCTL_DB": "environment.db"}
    fill(spool, "--db", "flag.db", note="flag", env=env)
    fill(spool, note="environment", env=env)
    fill(spool, note="config")
    (spool.path / ".spoolctl" / "config.json").unlink()
    fill(spool, note="default")
    for path, note in (
        ("flag.db", "flag"), ("environment.db", "environment"),
        (".spoolctl/config.db", "config"), (".spoolctl/queue.db", "default"),
    ):  # fmt: skip
        assert (spool.path / path).is_file(), path
        assert notes(spool, "--db", path) == [note]


def test_config_show_says_where_the_path_is_from(spool):
    assert place(spool) == (str(spool.db), "default")
    configure(spool.path, version=1, db_path="config.db")
    assert place(spool) == (str(spool.path / ".spoolctl" / "config.db"), "project_config")
    env = {"SPOOLCTL_DB": "environment.db"}
    assert place(spool, env=env) == (str(spool.path / "environment.db"), "environment")
    assert place(spool, "--db", "flag.db", env=env) == (str(spool.path / "flag.db"), "flag")


def test_a_path_in_the_config_is_relative_to_the_config_and_one_in_the_flag_to_the_caller(spool):
    configure(spool.path, version=1, db_path="../data/q.db")
    below = spool.path / "a" / "b"
    below.mkdir(parents=True)
    assert place(spool, cwd=below)[0] == str(spool.path / "data" / "q.db")
    assert place(spool, "--db", "q.db", cwd=below)[0] == str(below / "q.db")
    assert place(spool, env={"SPOOLCTL_DB": "../q.db"}, cwd=below)[0] == str(spool.path / "a" / "q.db")
    configure(spool.path, version=1, db_path=str(spool.path / "absolute.db"))
    assert place(spool, cwd=below)[0] == str(spool.path / "absolute.db")


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 4097])
def test_an_empty_or_impossible_variable_is_refused(spool, value):
    for verb in ("list", "status", "add"):
        words = ("--", "true") if verb == "add" else ()
        answer = spool.run(verb, "--json", *words, env={"SPOOLCTL_DB": value})
        assert answer.code == "INVALID_INPUT"
        assert answer.error["detail"]["flag"] == "SPOOLCTL_DB"
    assert spool.files() == []


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 4097])
def test_an_empty_or_impossible_flag_is_refused(spool, value):
    answer = spool.run("list", "--json", "--db", value)
    assert answer.code == "INVALID_INPUT"
    assert answer.error["detail"]["flag"] == "--db"
    assert spool.files() == []


def test_the_flag_counts_even_where_the_variable_is_bad(spool):
    assert spool.run("list", "--json", "--db", "q.db", env={"SPOOLCTL_DB": ""}).exit == 0


def test_a_tilde_is_a_name(spool):
    fill(spool, "--db", "~/q.db")
    assert (spool.path / "~" / "q.db").is_file()


# --- the project directory --------------------------------------------------------------------------------


def test_the_nearest_directory_upward_that_holds_a_spool_is_the_project(spool):
    fill(spool, note="outer")
    below = spool.path / "a" / "b" / "c"
    below.mkdir(parents=True)
    assert notes(spool, cwd=below) == ["outer"]
    fill(spool, note="again", cwd=below)
    assert notes(spool) == ["again", "outer"]
    (spool.path / "a" / ".spoolctl").mkdir()
    assert place(spool, cwd=below)[0] == str(spool.path / "a" / ".spoolctl" / "queue.db")
    assert notes(spool, cwd=below) == []


def test_a_directory_without_a_spool_anywhere_gets_one_of_its_own(spool):
    below = spool.path / "a"
    below.mkdir()
    fill(spool, cwd=below)
    assert (below / ".spoolctl" / "queue.db").is_file()
    assert not spool.db.exists()


def test_a_file_of_that_name_is_no_project(spool):
    below = spool.path / "a"
    below.mkdir()
    (below / ".spoolctl").write_text("a file")
    fill(spool, note="outer")
    assert notes(spool, cwd=below) == ["outer"]


def test_a_file_where_the_spool_should_be_is_refused_and_kept(spool):
    (spool.path / ".spoolctl").write_text("a file")
    answer = spool.run("add", "--json", "--", "true")
    assert answer.code in ("DB_INVALID", "INVALID_INPUT")
    assert (spool.path / ".spoolctl").read_text() == "a file"
    assert spool.run("list", "--json").exit in (0, 3)


def test_the_config_of_the_project_above_counts(spool):
    configure(spool.path, version=1, defaults={"queue": "mine"})
    below = spool.path / "a"
    below.mkdir()
    assert spool.json("add", "--", "true", cwd=below)["queue"] == "mine"


def give_away(path):
    for one in [path, *path.rglob("*")]:
        os.chown(one, STRANGER, STRANGER)


@ROOT_ONLY
def test_a_strangers_spool_above_is_passed_over(spool):
    """QUALITY, case 40."""
    fill(spool, note="own")
    middle = spool.path / "middle"
    below = middle / "below"
    below.mkdir(parents=True)
    configure(middle, version=1, defaults={"queue": "evil"}, db_path="evil.db")
    give_away(middle / ".spoolctl")
    assert notes(spool, cwd=below) == ["own"]
    assert place(spool, cwd=middle) == (str(spool.db), "default")
    assert spool.json("add", "--", "true", cwd=below)["queue"] == "default"


@ROOT_ONLY
def test_falling_back_onto_a_strangers_spool_is_refused(spool):
    configure(spool.path, version=1, defaults={"queue": "evil"}, db_path="evil.db")
    give_away(spool.path / ".spoolctl")
    before = spool.files()
    for words in (["list"], ["status"], ["add", "--", "true"], ["show", "1"]):
        answer = spool.run(words[0], "--json", *words[1:])
        assert answer.code == "SAFETY_BLOCK", answer
        assert answer.exit == 2
    assert spool.files() == before
    assert spool.run("list", "--json", "--db", "own.db").exit == 0
    fill(spool, note="own", env={"SPOOLCTL_DB": "own.db"})
    assert notes(spool, "--db", "own.db") == ["own"]


@ROOT_ONLY
def test_a_strangers_link_to_our_spool_is_ours_by_its_target(spool):
    fill(spool, note="own")
    below = spool.path / "a"
    below.mkdir()
    (below / ".spoolctl").symlink_to(spool.path / ".spoolctl")
    os.chown(below / ".spoolctl", STRANGER, STRANGER, follow_symlinks=False)
    assert notes(spool, cwd=below) == ["own"]


# --- directories, links, odd names ------------------------------------------------------------------------


def test_a_directory_means_the_queue_in_it(spool):
    fill(spool, "--db", "jobs/queue.db", note="here")
    assert notes(spool, "--db", "jobs") == ["here"]
    assert notes(spool, "--db", "jobs/") == ["here"]
    assert notes(spool, env={"SPOOLCTL_DB": str(spool.path / "jobs")}) == ["here"]
    configure(spool.path, version=1, db_path="../jobs")
    assert notes(spool) == ["here"]


@pytest.mark.parametrize("how", ["flag", "environment", "config"])
def test_any_other_directory_is_refused(spool, how):
    (spool.path / "empty").mkdir()
    (spool.path / "empty" / "other.db").write_text("")
    (spool.path / "empty" / "queue.db").mkdir()
    words, env = (), {}
    if how == "flag":
        words = ("--db", "empty")
    elif how == "environment":
        env = {"SPOOLCTL_DB": "empty"}
    else:
        configure(spool.path, version=1, db_path="../empty")
    before = spool.files()
    for verb in (["list"], ["add", "--", "true"]):
        answer = spool.run(verb[0], "--json", *words, *verb[1:], env=env)
        assert answer.code == "INVALID_INPUT", answer
    assert spool.files() == before


def test_one_file_under_several_spellings_is_one_queue(spool):
    real = spool.path / "real"
    real.mkdir()
    fill(spool, "--db", "real/q.db", note="1")
    (spool.path / "link").symlink_to("real")
    (spool.path / "q.db").symlink_to("real/q.db")
    (spool.path / "chain.db").symlink_to("q.db")
    spellings = [
        "real/q.db",
        "link/q.db",
        "q.db",
        "chain.db",
        "real/../link/./q.db",
        str(real / "q.db"),
        "real//q.db",
    ]
    for spelling in spellings:
        assert notes(spool, "--db", spelling) == ["1"], spelling
        assert place(spool, "--db", spelling)[0] == str(real / "q.db")
    fill(spool, "--db", "chain.db", note="2")
    assert notes(spool, "--db", "real/q.db") == ["2", "1"]
    assert sorted(path.name for path in spool.path.iterdir()) == ["chain.db", "link", "q.db", "real"]


def test_a_link_to_nothing_makes_the_file_it_points_to(spool):
    (spool.path / "q.db").symlink_to("deep/er/q.db")
    fill(spool, "--db", "q.db", note="1")
    assert (spool.path / "deep" / "er" / "q.db").is_file()
    assert (spool.path / "q.db").is_symlink()


def test_a_linked_spool_directory_is_followed(spool):
    elsewhere = spool.path / "elsewhere"
    elsewhere.mkdir()
    (spool.path / ".spoolctl").symlink_to(elsewhere)
    fill(spool, note="1")
    assert (elsewhere / "queue.db").is_file()
    assert notes(spool) == ["1"]


def test_a_loop_of_links_is_a_refusal(spool):
    (spool.path / "a.db").symlink_to("b.db")
    (spool.path / "b.db").symlink_to("a.db")
    for words in (["list"], ["add", "--", "true"]):
        answer = spool.run(words[0], "--json", "--db", "a.db", *words[1:])
        assert answer.code in ("DB_INVALID", "INVALID_INPUT"), answer


NAMES = [
    "a b.db",
    "é.db",
    "-dash.db",
    "q?mode=ro",
    "q#x",
    "100%25.db",
    "a'b\"c.db",
    "q:memory:",
    "q;DROP",
    "new\nline",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_database_of_any_name(spool, name):
    fill(spool, f"--db={name}", note="1")
    assert (spool.path / name).is_file()
    assert notes(spool, f"--db={name}") == ["1"]
    made = {path.name for path in spool.path.iterdir()}
    assert all(one.startswith(name) for one in made), made


def test_a_database_whose_name_is_not_utf8(spool):
    name = os.fsdecode(b"q\xff.db")
    fill(spool, "--db", name, note="1")
    assert notes(spool, "--db", name) == ["1"]
    assert os.path.isfile(os.fsencode(spool.path) + b"/q\xff.db")
    assert spool.cli("list", "--json", "--db", name).data["count"] == 1


def test_a_directory_whose_name_is_not_utf8(spool):
    folder = spool.path / os.fsdecode(b"d\xff")
    folder.mkdir()
    fill(spool, note="1", cwd=folder)
    assert notes(spool, cwd=folder) == ["1"]
    assert (folder / ".spoolctl" / "queue.db").is_file()


def test_the_shell_variable_of_the_directory_is_only_believed_when_it_names_it(spool):
    """A job's directory keeps symbolic links (SPEC 5)."""
    (spool.path / "real").mkdir()
    (spool.path / "link").symlink_to("real")
    inside = spool.path / "real"
    for shown, stored in (
        (spool.path / "link", spool.path / "link"), (spool.path, inside), ("relative", inside), ("", inside),
        (f"{spool.path}/link/../link", inside), ("/nowhere", inside),
    ):  # fmt: skip
        answer = spool.run(
            "add", "--json", "--db", "../q.db", "--", "true", cwd=inside, env={"PWD": str(shown)}
        )
        assert answer.data["cwd"] == str(stored), shown


# --- what is made -----------------------------------------------------------------------------------------

REFUSED = [
    ["add", "--json"], ["add", "--json", "--priority", "x", "--", "true"],
    ["add", "--json", "--bogus", "--", "true"], ["add", "--json", "--after", "1h", "--at", "0", "--", "true"],
    ["add", "--json", "-c", ""], ["add", "--json", "--env", "NOT_SET_ANYWHERE", "--", "true"],
    ["add", "--json", "--tag", "a=1", "--tag", "a=2", "x"],
    ["add", "--json", "--", ""], ["add", "--json", "--from", "missing"], ["cancel", "--json", "1"],
    ["retry", "--json", "1"], ["show", "--json", "1"], ["prune", "--json", "--older-than", "1h"],
    ["wait", "--json", "1"], ["feedback", "--json", "1"], ["output", "--json", "1"],
]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_refused_call_makes_nothing(spool, words):
    answer = spool.run(*words)
    assert answer.code is not None
    assert spool.files() == []
    assert spool.run(*words, "--db", "deep/er/q.db").code is not None
    assert spool.files() == []


@pytest.mark.parametrize(
    "words",
    [["list"], ["status"], ["events"], ["config-show"], ["prune", "--older-than", "1h", "--dry-run"],
     ["prune", "--older-than", "1h", "--yes"], ["wait", "--all"], ["retry", "--all-dead"],
     ["cancel", "--queue", "x"], ["work", "--once"], ["work", "--drain"]],
    ids=" ".join,
)  # fmt: skip
def test_a_call_that_finds_nothing_makes_nothing(spool, words):
    answer = spool.run(words[0], "--json", *words[1:])
    assert answer.exit == 0, answer
    assert spool.files() == []


def test_the_database_that_was_made_is_named(spool):
    answer = spool.run("add", "--json", "--db", "a/b/q.db", "--", "true")
    assert "DB_CREATED" in answer.warnings
    message = next(w["message"] for w in answer.json["warnings"] if w["code"] == "DB_CREATED")
    assert str(spool.path / "a" / "b" / "q.db") in message
    assert "DB_CREATED" not in spool.run("add", "--json", "--db", "a/b/q.db", "--", "true").warnings
    text = spool.run("add", "--db", "c.db", "--", "true")
    assert "DB_CREATED" in text.warnings


def test_a_new_spool_keeps_itself_out_of_version_control(spool):
    fill(spool)
    assert (spool.path / ".spoolctl" / ".gitignore").read_text() == "*\n"


def test_a_folder_of_another_name_or_one_that_was_there_gets_no_such_file(spool):
    fill(spool, "--db", "jobs/queue.db")
    assert not (spool.path / "jobs" / ".gitignore").exists()
    (spool.path / ".spoolctl").mkdir()
    fill(spool)
    assert not (spool.path / ".spoolctl" / ".gitignore").exists()


def modes(folder):
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077, 0o277])
def test_everything_is_private_under_any_umask(spool, umask):
    """QUALITY, case 28: while a call is under way and afterwards."""
    line = f'umask {umask:04o}; exec "$@"'

    def call(*words):
        return subprocess.run(
            ["sh", "-c", line, "sh", *command(*words)], cwd=spool.path, env=clean_env(), capture_output=True
        )

    if umask == 0o277:  # it takes the owner's right to write
        assert call("add", "--json", "--", "true").returncode in (0, 3)
        return
    assert call("add", "--json", "--db", "a/b/queue.db", "-c", "echo hi").returncode == 0
    assert call("add", "--json", "-c", "echo hi").returncode == 0
    assert call("work", "--json", "--drain").returncode == 0
    found = modes(spool.path)
    assert ".spoolctl/queue.db" in found
    assert ".spoolctl/output/1/1/stdout" in found
    for name, mode in found.items():
        wanted = 0o700 if (spool.path / name).is_dir() else 0o600
        assert mode == wanted, (name, oct(mode))


def test_the_write_ahead_log_is_as_private_as_the_database(spool):
    line = 'umask 0000; exec "$@"'
    env = clean_env()
    subprocess.run(
        ["sh", "-c", line, "sh", *command("add", "--", "true")],
        cwd=spool.path, env=env, check=True, capture_output=True,
    )  # fmt: skip
    import sqlite3

    other = sqlite3.connect(spool.db)  # holds -wal and -shm in place
    try:
        other.execute("SELECT count(*) FROM jobs").fetchone()
        subprocess.run(
            ["sh", "-c", line, "sh", *command("add", "--", "true")],
            cwd=spool.path, env=env, check=True, capture_output=True,
        )  # fmt: skip
        found = modes(spool.path)
        assert found[".spoolctl/queue.db-wal"] == found[".spoolctl/queue.db-shm"] == 0o600
    finally:
        other.close()


def test_what_stands_beside_a_file_named_queue(spool):
    spool.add("-c", "echo hi")
    spool.work()
    names = {path.name for path in spool.db.parent.iterdir()}
    assert {"queue.db", "output", "gate"} <= names
    assert names <= {
        ".gitignore", "queue.db", "queue.db-wal", "queue.db-shm", "output", "workers", "gate", "wake",
    }  # fmt: skip


def test_what_stands_beside_a_file_of_another_name(spool):
    spool.run("add", "--json", "--db", "jobs.db", "-c", "echo hi", check=0)
    spool.work("--db", "jobs.db")
    names = {path.name for path in spool.path.iterdir()}
    assert {"jobs.db", "jobs.db.output", "jobs.db.gate"} <= names
    assert names <= {
        "jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.output", "jobs.db.workers", "jobs.db.gate",
        "jobs.db.wake",
    }  # fmt: skip
    path = spool.json("output", "--db", "jobs.db", "1")["streams"]["stdout"]["path"]
    assert path == str(spool.path / "jobs.db.output" / "1" / "1" / "stdout")


def test_two_queues_of_one_folder_do_not_meet(spool):
    for name in ("a.db", "b.db"):
        spool.run("add", "--json", "--db", name, "-c", f"echo {name}", check=0)
    spool.work("--db", "a.db")
    assert spool.json("list", "--db", "b.db")["jobs"][0]["state"] == "queued"
    assert not (spool.path / "b.db.output").exists()


def test_the_folder_can_be_moved_as_a_whole(spool):
    """QUALITY, case 29."""
    job = spool.add("-c", "echo moved")
    spool.work()
    content = spool.db.read_bytes()
    assert os.fsencode(spool.path / ".spoolctl") not in content
    elsewhere = spool.path / "elsewhere"
    elsewhere.mkdir()
    (spool.path / ".spoolctl").rename(elsewhere / ".spoolctl")
    answer = Spool(elsewhere).json("output", str(job))
    assert answer["streams"]["stdout"]["preview"] == "moved\n"
    assert answer["streams"]["stdout"]["path"].startswith(str(elsewhere))


# --- the config file --------------------------------------------------------------------------------------

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
    fill(spool, note="1")
    below = spool.path / "below"
    below.mkdir()
    done = subprocess.run(
        command("list", "--json"), cwd=below, env=clean_env(PWD=str(below)), capture_output=True, check=True
    )
    assert strict_json(done.stdout.decode())["data"]["count"] == 1
