"""SPEC 2.5: which database a call means."""

from __future__ import annotations

import json
import os

import pytest

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


# --- precedence -----------------------------------------------------------------------------------------


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


# --- the project directory ------------------------------------------------------------------------------


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


# --- directories, links, odd names ----------------------------------------------------------------------


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


def test_workers_by_two_spellings_are_of_one_queue(spool):
    """QUALITY, case 37: they share locks and rows, and no job runs twice."""
    real = spool.path / "real"
    real.mkdir()
    (spool.path / "q.db").symlink_to("real/q.db")
    lines = b"echo $SPOOLCTL_JOB_ID $SPOOLCTL_JOB_DB >>log; sleep 0.05\n" * 20
    spool.run("add", "--db", "real/q.db", "--json", "--from", "-", stdin=lines, check=0)
    both = [spool.start("work", "--json", "--drain", "--db", name) for name in ("real/q.db", "q.db")]
    assert [one.wait(30) for one in both] == [0, 0]
    ran = [line.split() for line in (spool.path / "log").read_text().splitlines()]
    assert sorted(int(job) for job, _ in ran) == list(range(1, 21))
    assert {db for _, db in ran} == {str(real / "q.db")}
    assert sorted(path.name for path in spool.path.iterdir()) == ["log", "q.db", "real"]


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
