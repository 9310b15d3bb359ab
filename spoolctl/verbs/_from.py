"""add --from: one job a line, all or nothing."""

from .. import clock, jsontext
from ..contract import limits
from ..contract.spec import Result
from ..contract.types import BadValue
from ..errors import SpoolctlError
from . import _adding, _job, _lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..context import Context
    from ..store.bulk import Stage
    from ..store.db import Db, Row

_CHUNK = 2000  # lines handed to the database at once


def run(path: str, base: "Row", ctx: "Context") -> Result:
    from ..store.bulk import Stage
    from ..store.open import exists

    db = _adding.open_queue(ctx) if exists(ctx.spool()) else None
    stage = Stage(db)
    try:
        _stage(stage, _lines.read(path, ctx.stdin), base, ctx)
        repeated = stage.repeated()
        differing = sum(_compare(stage, n, first) for n, first in repeated.items())
    except SpoolctlError as error:
        if path != "-" and "line" in error.detail:
            error.remediation = _lines.shown(path, error.detail["line"]) or error.remediation  # type: ignore[arg-type]
        raise
    stage.drop(list(repeated))
    stage.seal()
    if db is None:
        db = _adding.open_queue(ctx)
        stage = stage.move(db)
    answer = _add(db, stage, repeated)
    differing += stage.differing()
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
    _adding.after_bulk(db)
    if answer["added"]:
        first, last = answer["first_id"], answer["last_id"]
        ids = first if first == last else f"{first}-{last}"
        commands.append(ctx.with_db(f"spoolctl wait {ids}"))
    return Result(answer, commands, warnings)


def _stage(stage: "Stage", lines: "Iterator[tuple[int, str]]", base: "Row", ctx: "Context") -> None:
    now, captured = clock.now(), _job.captured(ctx)
    plain = _job.submission(base, ["sh"], ctx, now, captured)
    columns = list(plain.row)
    place = columns.index("argv")
    constant = tuple(plain.row.values())
    before, after = (plain.scope, *constant[:place]), constant[place + 1 :]
    rows: "list[tuple[object, ...]]" = []
    tags: "list[tuple[int, str, str]]" = []
    for n, (number, text) in enumerate(lines, 1):
        if n > limits.FROM_MAX:
            raise _lines.bad(number, f"more than {limits.FROM_MAX} jobs in one call: split them")
        if text[0] != "{":
            if "\0" in text:
                raise _lines.bad(number, "a command must not hold a NUL")
            rows.append((n, number, *before, f'["sh","-c",{jsontext.compact(text)}]', *after))
            labels = plain.tags
        else:
            try:
                values, argv = _lines.asked(text, base)
                one = _job.submission(values, argv, ctx, now, captured)
            except SpoolctlError as error:
                raise _lines.bad(number, error.message) from None
            except BadValue as wrong:
                raise _lines.bad(number, wrong.message, wrong.did_you_mean) from None
            except ValueError as error:
                raise _lines.bad(number, str(error)) from None
            rows.append((n, number, one.scope, *one.row.values()))
            labels = one.tags
        tags += [(n, key, value) for key, value in labels.items()]
        if len(rows) >= _CHUNK:
            stage.put(rows, tags)
            rows, tags = [], []
    stage.put(rows, tags)


def _compare(stage: "Stage", n: int, first: int) -> bool:
    """Whether a line differs in tags, note or schedule from the first line with its key. Raises
    IDEMPOTENCY_CONFLICT, INVALID_INPUT."""
    line, scope, row = stage.row(n)
    first_line, first_scope, other = stage.row(first)
    if scope != first_scope:
        raise _lines.bad(line, f"key {row['key']!r} has another scope than in line {first_line}")
    fields = _job.differences(other, row) if scope == "active" else []
    if fields:
        raise SpoolctlError(
            "IDEMPOTENCY_CONFLICT",
            f"line {line}: key {row['key']!r} stands in line {first_line} too, "
            f"which differs in {', '.join(fields)}: give them keys of their own; nothing was added",
            "spoolctl add --help",
            {"line": line, "job_id": None, "fields": fields},
        )
    return any(row[name] != other[name] for name in ("note", "asked")) or stage.tags(n) != stage.tags(first)


def _add(db: "Db", stage: "Stage", repeated: "dict[int, int]") -> "Row":
    """Add what has no job yet; the data of the answer. Raises IDEMPOTENCY_CONFLICT."""
    from ..store import bulk, jobs

    with db.write() as conn:
        found = bulk.find_held(conn)
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
        "job_ids": _ids(stage, repeated, first) if stage.count <= limits.FROM_IDS_MAX else None,
    }


def _ids(stage: "Stage", repeated: "dict[int, int]", first: int) -> "list[int]":
    """The job of each line, in order."""
    held = stage.held()
    ids: "dict[int, int]" = {}
    for n in range(1, stage.count + 1):
        if n in repeated:
            ids[n] = ids[repeated[n]]
        elif n in held:
            ids[n] = held[n]
        else:
            ids[n], first = first, first + 1
    return list(ids.values())
