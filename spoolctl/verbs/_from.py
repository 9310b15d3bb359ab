"""add --from: one job a line, all or nothing."""

import os

from .. import clock
from ..contract import limits
from ..contract.spec import Result
from ..errors import SpoolctlError
from . import _adding, _job, _lines
from ._progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..context import Context
    from ..store.bulk import Stage
    from ..store.db import Db, Row

    Blocks = Iterator[list[tuple[int, str]]]

_PAUSE = 0.1  # seconds from one look of the progress line to the next


def run(path: str, base: "Row", ctx: "Context") -> Result:
    progress = Progress(ctx)
    if path == "-" and os.isatty(ctx.stdin):
        progress.on = False  # whoever types the lines sees how far it is
    try:
        return _run(path, base, ctx, progress)
    finally:
        progress.clear()


def _run(path: str, base: "Row", ctx: "Context", progress: Progress) -> Result:
    from ..store.bulk import Stage
    from ..store.open import exists

    db = _adding.open_queue(ctx) if exists(ctx.spool()) else None
    stage = Stage(db)
    try:
        _stage(stage, _lines.read(path, ctx.stdin), base, ctx, progress)
        odd = stage.repeat()
        if odd is not None:
            raise _odd(stage, *odd)
    except SpoolctlError as error:
        if path != "-" and "line" in error.detail:
            error.remediation = _lines.shown(path, error.detail["line"]) or error.remediation  # type: ignore[arg-type]
        raise
    differing = stage.seal()
    if db is None:
        db = _adding.open_queue(ctx)
        stage = stage.move(db)
    progress.show("writing")
    answer = _add(db, stage)
    differing += stage.differing()
    _adding.after_bulk(db)
    return _told(answer, stage, differing, db, ctx)


def _told(answer: "Row", stage: "Stage", differing: int, db: "Db", ctx: "Context") -> Result:
    """The answer with its warnings and what to call next."""
    warnings: "list[tuple[str, str]]" = []
    if differing:
        kept, them = ("job is kept as it is", "it differs")
        if differing > 1:
            kept, them = ("jobs are kept as they are", "they differ")
        message = f"{differing} {kept}; {them} in tags, note or schedule"
        warnings.append(("IDEMPOTENCY_METADATA_DIFFERS", message))
    commands = []
    if answer["added"]:
        for lane in stage.due_lanes(clock.now()):
            unserved = _adding.lane_warning(ctx, db, lane)
            warnings += unserved
            if unserved:
                commands.append(ctx.with_db(_adding.drain_line(ctx, lane)))
        commands = commands[:2]
        first, last = answer["first_id"], answer["last_id"]
        ids = first if first == last else f"{first}-{last}"
        commands.append(ctx.with_db(f"spoolctl wait {ids}"))
    return Result(answer, commands, warnings)


def _stage(stage: "Stage", blocks: "Blocks", base: "Row", ctx: "Context", progress: Progress) -> None:
    from ..terminal import counted
    from ._rows import Rows

    made = Rows(stage, base, ctx)
    n, shown_at = 0, 0.0
    for lines in blocks:
        rows: "list[tuple[object, ...]]" = []
        tags: "list[tuple[int, str, str]]" = []
        for number, text in lines:
            n += 1
            if n > limits.FROM_MAX:
                raise _lines.bad(number, f"more than {limits.FROM_MAX} jobs in one call: split them")
            if text[0] != "{":
                row, labels = made.shell(n, number, text), made.plain.tags
            else:
                row, labels = made.json(n, number, text)
            rows.append(row)
            if labels:
                tags += [(n, key, value) for key, value in labels]
        stage.put(rows, tags)
        now = clock.monotonic()
        if progress.on and now - shown_at >= _PAUSE:
            shown_at = now
            progress.show(f"{counted(n, 'line')} read")


def _odd(stage: "Stage", n: int, first: int) -> SpoolctlError:
    """The refusal of a line that has the key of an earlier one, and must not."""
    line, scope, row = stage.row(n)
    first_line, first_scope, other = stage.row(first)
    if scope != first_scope:
        return _lines.bad(line, f"key {row['key']!r} has another scope than in line {first_line}")
    fields = _job.differences(other, row)
    return SpoolctlError(
        "IDEMPOTENCY_CONFLICT",
        f"line {line}: key {row['key']!r} stands in line {first_line} too, "
        f"which differs in {', '.join(fields)}: give them keys of their own; nothing was added",
        "spoolctl add --help",
        {"line": line, "job_id": None, "fields": fields},
    )


def _add(db: "Db", stage: "Stage") -> "Row":
    """Add what has no job yet; the data of the answer. Raises IDEMPOTENCY_CONFLICT."""
    from ..store import bulk, jobs

    with db.write() as conn:
        found = bulk.find_held(conn, stage)
        if found is not None:
            n, job_id = found
            line, _, row = stage.row(n)
            existing = jobs.get(db, job_id)
            assert existing is not None
            raise _job.conflict(job_id, _job.differences(existing, row), row["key"], line)
        first, added = bulk.add_staged(conn, stage)
    return {
        "added": added,
        "deduplicated": stage.count - added,
        "first_id": first if added else None,
        "last_id": first + added - 1 if added else None,
        "job_ids": _ids(stage, first) if stage.count <= limits.FROM_IDS_MAX else None,
    }


def _ids(stage: "Stage", first: int) -> "list[int]":
    """The job of each line, in order."""
    held, repeated = stage.held(), stage.repeated()
    ids: "dict[int, int]" = {}
    for n in range(1, stage.count + 1):
        if n in repeated:
            ids[n] = ids[repeated[n]]
        elif n in held:
            ids[n] = held[n]
        else:
            ids[n], first = first, first + 1
    return list(ids.values())
