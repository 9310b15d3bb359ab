"""Calls that add jobs, make the database, or bring it up."""

from __future__ import annotations

from spoolctl.store import ddl

from .case import Scenario, alone

LINES = 24
ADD = ("add", "--cwd", "/", "--backoff-base", "0.01", "--key", "k", "--tag", "a=b", "-c", alone())
# Every WAL is big enough for a checkpoint, at every look.
SMALL = """
from spoolctl.store import db
db.ADD_TRIGGER = db.WORK_TRIGGER = 1
from spoolctl.store import checkpoint
checkpoint.STEP = 1
"""


def ids_of_key(case, key="k"):
    if not (case.db.exists() and case.db.stat().st_size and case.rows("SELECT 1 FROM sqlite_master")):
        return []
    return [job_id for (job_id,) in case.rows("SELECT id FROM jobs WHERE key = ? ORDER BY id", key)]


class FirstAdd(Scenario):
    """add on a database that does not exist, in a directory that does not either."""

    words = ADD
    place = "deep/er/.spoolctl"

    def check(self, case):
        before = ids_of_key(case)
        assert len(before) <= 1
        if case.answer is not None:
            assert before == [case.answer["job_id"]]
        assert case.call("list").data["count"] == len(case.call("list").data["jobs"]) >= len(before)
        again = case.call(*self.words).data
        assert again["deduplicated"] is bool(before)
        (job_id,) = ids_of_key(case)
        assert case.rows("SELECT key, value FROM job_tags WHERE job_id = ?", job_id) == [("a", "b")]
        assert case.rows("PRAGMA auto_vacuum") == [(2,)]
        assert case.rows("PRAGMA journal_mode") == [("wal",)]
        for path in case.db.parent.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path

    def settle(self, case):
        (job_id,) = ids_of_key(case)
        assert case.log(job_id) == ["start"]
        assert case.states()[job_id] == "done"


class Add(FirstAdd):
    """add on a database with some jobs."""

    place = Scenario.place

    def arrange(self, case):
        for _ in range(3):
            case.add("--", "true")


class AddFrom(Scenario):
    """add --from: all lines or none."""

    words = ("add", "--cwd", "/", "--tag", "run=1", "--from", "lines")

    def arrange(self, case):
        case.add("--", "true")
        (case.folder / "lines").write_text(
            "".join(f'{{"argv": ["true"], "key": "k{n}", "tags": {{"n": "{n}"}}}}\n' for n in range(LINES))
        )

    def added(self, case):
        return case.rows(
            "SELECT j.id, j.key, n.value, r.value FROM jobs j"
            " JOIN job_tags n ON n.job_id = j.id AND n.key = 'n'"
            " JOIN job_tags r ON r.job_id = j.id AND r.key = 'run' ORDER BY j.id"
        )

    def check(self, case):
        rows = self.added(case)
        assert len(rows) in (0, LINES)
        assert len(rows) == case.rows("SELECT count(*) - 1 FROM jobs")[0][0]
        if case.answer is not None:
            assert case.answer["job_ids"] == [row[0] for row in rows]
        again = case.call(*self.words[:-1], str(case.folder / "lines")).data
        assert (again["added"], again["deduplicated"]) == ((0, LINES) if rows else (LINES, 0))

    def settle(self, case):
        assert [row[1:] for row in self.added(case)] == [(f"k{n}", str(n), "1") for n in range(LINES)]
        assert set(case.rows("SELECT state, attempt_no FROM jobs")) == {("done", 1)}


class AddCheckpoint(AddFrom):
    """add --from that has to make a guarded checkpoint."""

    prelude = SMALL
    points = ("checkpoint: made",)


# A version of the tool that is two schemas ahead.
NEWER = f"""
from spoolctl.store import ddl, migrate
ddl.VERSION = {ddl.VERSION + 2}
migrate.STEPS.update({{
    {ddl.VERSION}: "ALTER TABLE jobs ADD COLUMN extra TEXT;\\nUPDATE jobs SET extra = state;",
    {ddl.VERSION + 1}:
        "CREATE TABLE more (x INTEGER PRIMARY KEY);\\nINSERT INTO more (x) SELECT id FROM jobs;",
}})
"""


class Migration(Scenario):
    """The first call of a newer version, which brings the schema up in two steps."""

    words = ("add", "--cwd", "/", "--key", "k", "--", "true")
    prelude = NEWER

    def arrange(self, case):
        for n in range(8):
            case.add("--tag", f"n={n}", "--", "true")

    def check(self, case):
        version = case.rows("PRAGMA user_version")[0][0] - ddl.VERSION
        columns = {row[1] for row in case.rows("PRAGMA table_info(jobs)")}
        tables = {name for (name,) in case.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert ("extra" in columns, "more" in tables) == (version >= 1, version >= 2)
        before = ids_of_key(case)
        if case.answer is not None:
            assert before == [case.answer["job_id"]]
        assert case.process(*self.words).data["deduplicated"] is bool(before)
        assert case.rows("PRAGMA user_version") == [(ddl.VERSION + 2,)]
        assert case.rows("SELECT extra, count(*) FROM jobs WHERE key IS NULL GROUP BY extra") == [
            ("queued", 8)
        ]
        assert case.rows("SELECT x FROM more") == [(n,) for n in range(1, 9)]

    def settle(self, case):
        assert set(case.rows("SELECT state, attempt_no FROM jobs")) == {("done", 1)}
        assert len(case.states()) == 9
