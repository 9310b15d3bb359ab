"""add --from: one job a line, all or nothing."""

import os

from .. import clock, jsontext, paths
from ..contract import limits
from ..contract.spec import Result
from ..errors import SpoolctlError, invalid
from . import _adding, _job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.bulk import Stage
    from ..store.db import Db

_CHUNK = 2000  # lines handed to the database at once


def run(path: str, base: "dict[str, object]", ctx: "Context") -> Result:
    from ..store.bulk import Stage
    from ..store.open import exists

    db = _adding.open_queue(ctx) if exists(ctx.spool()) else None
    stage = Stage(db)
    _stage(stage, _lines(path, ctx.stdin), base, ctx)
    stage.seal()
    repeated = stage.repeated()
    for n, first in repeated.items():
        _compare(stage, n, stage.row(first)[2], None)
    if db is None:
        db = _adding.open_queue(ctx)
        stage = stage.move(db)
    answer, differing = _add(db, stage, repeated)
    warnings: "list[tuple[str, str]]" = []
    if differing:
        message = f"{differing} jobs are kept as they are; they differ in tags, note or schedule"
        warnings.append(("IDEMPOTENCY_METADATA_DIFFERS", message))
    if answer["added"]:
        for lane in stage.due_lanes(clock.now()):
            warnings += _adding.lane_warning(ctx, db, lane)
    _adding.after_bulk(db)
    commands = []
    if answer["added"]:
        commands.append(ctx.with_db(f"spoolctl wait {answer['first_id']}-{answer['last_id']}"))
    return Result(answer, commands, warnings)


def _lines(path: str, stdin: int) -> "object":
    """(number, text) of every line that says something. Raises INVALID_INPUT for an unreadable file."""
    try:
        fd = stdin if path == "-" else os.open(paths.raw(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise invalid(
            f"--from: {path!r}: {error.strerror}",
            "name a file that can be read, or -",
            flag="--from",
            value=path,
        ) from None
    number, rest = 0, b""
    try:
        while True:
            try:
                chunk = os.read(fd, 262_144)
            except OSError as error:
                raise invalid(
                    f"--from: {path!r}: {error.strerror}", "name a file that can be read, or -",
                    flag="--from", value=path,
                ) from None  # fmt: skip
            whole = (rest + chunk).split(b"\n")
            rest = whole.pop() if chunk else b""
            for line in whole:
                number += 1
                text = line.strip()
                if text and text[0] != 35:  # '#'
                    yield number, text.decode("utf-8", "surrogateescape")
            if not chunk:
                return
    finally:
        if fd != stdin:
            os.close(fd)


def _stage(stage: "Stage", lines: "object", base: "dict[str, object]", ctx: "Context") -> None:
    now, captured = clock.now(), _job.captured(ctx)
    plain = _job.submission(base, ["sh"], ctx, now, captured)
    columns = list(plain.row)
    place = columns.index("argv")
    constant = tuple(plain.row.values())
    before, after = (plain.scope, *constant[:place]), constant[place + 1 :]
    rows: "list[tuple[object, ...]]" = []
    tags: "list[tuple[int, str, str]]" = []
    for n, (number, text) in enumerate(lines, 1):  # type: ignore[call-overload]
        if n > limits.FROM_MAX:
            raise _bad(number, f"more than {limits.FROM_MAX} jobs in one call")
        if text[0] != "{":
            if "\0" in text:
                raise _bad(number, "a command must not hold a NUL")
            rows.append((n, number, *before, f'["sh","-c",{jsontext.compact(text)}]', *after))
            labels = plain.tags
        else:
            try:
                values, argv = _job.line_values(text, base)
                one = _job.submission(values, argv, ctx, now, captured)
            except SpoolctlError as error:
                raise _bad(number, error.message) from None
            except ValueError as error:
                raise _bad(number, str(error)) from None
            rows.append((n, number, one.scope, *one.row.values()))
            labels = one.tags
        tags += [(n, key, value) for key, value in labels.items()]
        if len(rows) >= _CHUNK:
            stage.put(rows, tags)
            rows, tags = [], []
    stage.put(rows, tags)


def _bad(line: int, problem: str) -> SpoolctlError:
    return SpoolctlError(
        "INVALID_INPUT",
        f"--from: line {line}: {problem}",
        "mend the line; nothing was added",
        {"line": line},
    )


def _compare(stage: "Stage", n: int, existing: "dict[str, object]", job_id: "int | None") -> None:
    line, scope, row = stage.row(n)
    fields = _job.differences(existing, row) if scope == "active" else []
    if fields:
        raise _job.conflict(job_id, fields, row["key"], line)


def _add(db: "Db", stage: "Stage", repeated: "dict[int, int]") -> "tuple[dict[str, object], int]":
    """(data, how many deduplicated lines differ in metadata). Raises IDEMPOTENCY_CONFLICT."""
    from ..store import bulk, jobs

    known: "dict[int, int]" = {}  # n -> the job that has its key
    differing = 0
    with db.write() as conn:
        for n, job_id in stage.held().items():
            existing = jobs.get(db, job_id)
            assert existing is not None
            _compare(stage, n, existing, job_id)
            known[n] = job_id
            differing += bool(_adding.metadata_differences(db, existing, stage.row(n)[2], stage.tags(n)))
        for n in {*known, *repeated}:
            stage.drop(n)
        first, added = bulk.add_staged(conn, stage)
    deduplicated = stage.count - added
    job_ids = None
    if stage.count <= limits.FROM_IDS_MAX:
        ids: "dict[int, int]" = {}
        following = first
        for n in range(1, stage.count + 1):
            if n in known:
                ids[n] = known[n]
            elif n in repeated:
                ids[n] = ids[repeated[n]]
            else:
                ids[n], following = following, following + 1
        job_ids = list(ids.values())
    return {
        "added": added,
        "deduplicated": deduplicated,
        "first_id": first if added else None,
        "last_id": first + added - 1 if added else None,
        "job_ids": job_ids,
    }, differing
