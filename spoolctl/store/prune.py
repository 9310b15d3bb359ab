"""Deleting finished jobs, batch by batch, beside workers that go on.

A batch is three steps. Whatever kills the process between them leaves marks that the next prune finishes:
1. one transaction deletes the rows of the jobs that still match, and marks their ids in `pruned`;
2. their output goes: no job that can be retried has lost any, for these have no row any more;
3. the marks go.
The write lock is held in 1 and 3 only, never during file work.
"""

import os

from .. import clock, hooks
from ..paths import raw
from .db import Db
from .filter import Filter, matching
from .pace import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

FOUND = 20_000  # jobs looked for at once: a lane whose jobs are all too young is walked for each time
BATCH = 500  # jobs a transaction takes at most
REST = 0.05  # seconds at most between two batches

STATE_IF_ENDED_BEFORE = "SELECT state FROM jobs WHERE id = :id AND finished_at < :cutoff"
DELETE_EVENTS = "DELETE FROM job_events WHERE job_id = :id"
DELETE_ATTEMPTS = "DELETE FROM attempts WHERE job_id = :id"
DELETE_TAGS = "DELETE FROM job_tags WHERE job_id = :id"
DELETE_JOB = "DELETE FROM jobs WHERE id = :id"
MARK = "INSERT OR IGNORE INTO pruned (job_id) VALUES (:id)"
UNMARK = "DELETE FROM pruned WHERE job_id = :id"
MARKED = "SELECT job_id FROM pruned WHERE job_id > :after ORDER BY job_id LIMIT :most"
COUNT_EVENTS = "SELECT count(*) FROM job_events WHERE job_id = :id"
COUNT_ATTEMPTS = "SELECT count(*) FROM attempts WHERE job_id = :id"


class Tally:
    """What a prune came to. `left`: jobs whose output could not all be removed; their marks stay."""

    def __init__(self) -> None:
        self.matched = self.jobs = self.attempts = self.events = self.freed = self.left = 0


def selection(
    db: Db,
    states: "list[str]",
    cutoff: float,
    queue: "str | None" = None,
    tags: "Sequence[tuple[str, str | None]]" = (),
    keep: int = 0,
) -> "Filter | None":
    """The jobs that ended before `cutoff`, without the `keep` newest of these states, lane and tags.

    None when that leaves nothing to look for.
    """
    before = None
    if keep:
        spared = matching(db, Filter(states=states, queue=queue, tags=tags), keep, newest_first=True)
        if len(spared) < keep:
            return None
        before = spared[-1]
    return Filter(states=states, queue=queue, tags=tags, ended_before=cutoff, before=before)


def _found(db: Db, wanted: "Filter | None") -> "Iterator[list[int]]":
    while wanted is not None:
        ids = matching(db, wanted, FOUND)
        if not ids:
            return
        yield ids
        wanted.after = ids[-1]


def _batches(db: Db, wanted: "Filter | None", pace: Pace) -> "Iterator[list[int]]":
    for ids in _found(db, wanted):
        while ids:
            part, ids = ids[: pace.size], ids[pace.size :]
            yield part


def survey(db: Db, wanted: "Filter | None") -> Tally:
    """What `delete` would come to. Changes nothing."""
    tally = Tally()
    for ids in _found(db, wanted):
        tally.matched += len(ids)
        for job_id in ids:
            tally.events += db.one(COUNT_EVENTS, {"id": job_id})[0]  # type: ignore[index]
            tally.attempts += db.one(COUNT_ATTEMPTS, {"id": job_id})[0]  # type: ignore[index]
            tally.freed += _measured(_folder(db, job_id))
    tally.jobs = tally.matched
    return tally


def delete(db: Db, wanted: "Filter | None") -> Tally:
    """Finish what a killed prune left, then delete what matches. Raises LOCKED, DB_INVALID, sqlite3.Error."""
    tally = Tally()
    pace = Pace(db, most=BATCH)
    took = 0.0
    try:
        for ids in _marked(db):
            _remove(db, ids, tally)
        for ids in _batches(db, wanted, pace):
            if tally.matched:
                # Half of the time is the others': removing files slows whoever makes some in the same place.
                pace.pause(min(REST, took))
            began = clock.monotonic()
            tally.matched += len(ids)
            hooks.at("prune: selected")
            gone = _delete_rows(db, ids, wanted, tally, pace)  # type: ignore[arg-type]
            hooks.at("prune: rows gone")
            _remove(db, gone, tally)
            pace.keep_log_small()
            took = clock.monotonic() - began
    finally:
        pace.close()
    return tally


def _marked(db: Db) -> "Iterator[list[int]]":
    after = 0
    while True:
        ids: "list[int]" = [row[0] for row in db.all(MARKED, {"after": after, "most": BATCH})]
        if not ids:
            return
        yield ids
        after = ids[-1]


def _delete_rows(db: Db, ids: "list[int]", wanted: Filter, tally: Tally, pace: Pace) -> "list[int]":
    """Delete those of the jobs that nobody retried since they were selected. Returns their ids."""
    with db.write() as conn:
        began = clock.monotonic()
        gone = [job_id for job_id in ids if _matches_still(conn, job_id, wanted)]
        values = [{"id": job_id} for job_id in gone]
        conn.executemany(MARK, values)
        events = conn.executemany(DELETE_EVENTS, values).rowcount
        attempts = conn.executemany(DELETE_ATTEMPTS, values).rowcount
        conn.executemany(DELETE_TAGS, values)
        conn.executemany(DELETE_JOB, values)
        hooks.at("prune: rows going")
    pace.took(len(ids), clock.monotonic() - began)
    tally.jobs += len(gone)
    tally.attempts += max(0, attempts)
    tally.events += max(0, events)
    return gone


def _matches_still(conn: "sqlite3.Connection", job_id: int, wanted: Filter) -> bool:
    values = {"id": job_id, "cutoff": wanted.ended_before}
    found = conn.execute(STATE_IF_ENDED_BEFORE, values).fetchone()
    return found is not None and found[0] in (wanted.states or ())


def _remove(db: Db, ids: "list[int]", tally: Tally) -> None:
    """Remove the output of jobs whose rows are gone, then their marks."""
    done = []
    for job_id in ids:
        hooks.at("prune: output going")
        freed, complete = _removed(_folder(db, job_id))
        tally.freed += freed
        if complete:
            done.append({"id": job_id})
        else:
            tally.left += 1
    hooks.at("prune: output gone")
    if done:
        with db.write(full=False) as conn:
            conn.executemany(UNMARK, done)


def _folder(db: Db, job_id: int) -> bytes:
    return raw(f"{db.spool.output}/{job_id}")


def _measured(path: bytes) -> int:
    """The bytes of a file or of all files below a directory; links are not followed."""
    try:
        info = os.lstat(path)
        if (info.st_mode & 0o170000) != 0o040000:
            return info.st_size
        return sum(_measured(path + b"/" + name) for name in os.listdir(path))
    except OSError:
        return 0


def _removed(path: bytes) -> "tuple[int, bool]":
    """Remove a file or a directory with all in it: (bytes freed, whether it is gone). Follows no links."""
    try:
        info = os.lstat(path)
        if (info.st_mode & 0o170000) != 0o040000:
            os.unlink(path)
            return info.st_size, True
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0, True
    except OSError:
        return 0, False
    freed, complete = 0, True
    for name in names:
        part, gone = _removed(path + b"/" + name)
        freed += part
        complete = complete and gone
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        complete = False
    return freed, complete
