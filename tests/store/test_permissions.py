"""SPEC 2.2 and 7: queues and directories that a plain user may not read, write or enter."""

from __future__ import annotations

import os

READS = [["list", "--json"], ["status", "--json"], ["show", "--json", "1"], ["events", "--json"]]
WRITES = [["add", "--json", "--", "true"], ["cancel", "--json", "1"], ["work", "--json", "--drain"]]


def test_a_queue_that_may_not_be_read_is_refused(plain_user):
    plain_user.add()
    path = plain_user.path / ".spoolctl" / "queue.db"
    path.chmod(0)
    for words in READS + WRITES:
        assert plain_user.code(*words) in ("DB_READONLY", "DB_INVALID"), words
    path.chmod(0o600)
    assert plain_user.code("list", "--json") is None


def test_a_queue_that_may_only_be_read_answers_and_takes_nothing(plain_user):
    plain_user.add()
    path = plain_user.path / ".spoolctl" / "queue.db"
    content = path.read_bytes()
    path.chmod(0o400)
    for words in READS:
        assert plain_user.code(*words) is None, words
    for words in WRITES:
        assert plain_user.code(*words) == "DB_READONLY", words
    assert path.read_bytes() == content


def test_a_directory_that_may_not_be_written_takes_nothing(plain_user):
    plain_user.add()
    folder = plain_user.path / ".spoolctl"
    content = (folder / "queue.db").read_bytes()
    (folder / "gate").unlink()
    folder.chmod(0o500)
    for words in READS:
        assert plain_user.code(*words) in (None, "DB_READONLY"), words
    for words in WRITES:
        assert plain_user.code(*words) == "DB_READONLY", words
    assert (folder / "queue.db").read_bytes() == content
    folder.chmod(0o700)
    assert plain_user.code("add", "--json", "--", "true") is None


def test_a_queue_cannot_be_made_where_nothing_may_be_written(plain_user):
    for words in (["add", "--json", "--", "true"], ["add", "--json", "--db", "a/b/q.db", "--", "true"]):
        plain_user.path.chmod(0o500)
        assert plain_user.code(*words) == "DB_READONLY", words
        assert os.listdir(plain_user.path) == []
        assert plain_user.code("list", "--json") is None


def test_a_directory_that_may_not_be_entered_is_refused(plain_user):
    plain_user.add()
    (plain_user.path / ".spoolctl").chmod(0)
    for words in READS + WRITES:
        assert plain_user.code(*words) in ("DB_READONLY", "DB_INVALID", "INVALID_INPUT"), words
