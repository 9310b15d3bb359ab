"""SPEC 2.2 and 7: queues and directories that a plain user may not read, write or enter."""

from __future__ import annotations

import os

READS = [["list"], ["status"], ["show", "1"], ["events"]]
WRITES = [["add", "--", "true"], ["cancel", "1"], ["work", "--drain"]]


def test_a_queue_that_may_not_be_read_is_refused(person):
    person.add()
    path = person.path / ".spoolctl" / "queue.db"
    path.chmod(0)
    for words in READS + WRITES:
        assert person.code(*words) in ("DB_READONLY", "DB_INVALID"), words
    path.chmod(0o600)
    assert person.code("list") is None


def test_a_queue_that_may_only_be_read_answers_and_takes_nothing(person):
    person.add()
    path = person.path / ".spoolctl" / "queue.db"
    content = path.read_bytes()
    path.chmod(0o400)
    for words in READS:
        assert person.code(*words) is None, words
    for words in WRITES:
        assert person.code(*words) == "DB_READONLY", words
    assert path.read_bytes() == content


def test_a_directory_that_may_not_be_written_takes_nothing(person):
    person.add()
    folder = person.path / ".spoolctl"
    content = (folder / "queue.db").read_bytes()
    (folder / "gate").unlink()
    folder.chmod(0o500)
    for words in READS:
        assert person.code(*words) in (None, "DB_READONLY"), words
    for words in WRITES:
        assert person.code(*words) == "DB_READONLY", words
    assert (folder / "queue.db").read_bytes() == content
    folder.chmod(0o700)
    assert person.code("add", "--", "true") is None


def test_a_queue_cannot_be_made_where_nothing_may_be_written(person):
    for words in (["add", "--", "true"], ["add", "--db", "a/b/q.db", "--", "true"]):
        person.path.chmod(0o500)
        assert person.code(*words) == "DB_READONLY", words
        assert os.listdir(person.path) == []
        assert person.code("list") is None


def test_a_directory_that_may_not_be_entered_is_refused(person):
    person.add()
    (person.path / ".spoolctl").chmod(0)
    for words in READS + WRITES:
        assert person.code(*words) in ("DB_READONLY", "DB_INVALID", "INVALID_INPUT"), words
