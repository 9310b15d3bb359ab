"""output: what an attempt wrote, as a preview in JSON, as text, or byte for byte."""

from ..contract import limits
from ..contract.shared import JOB, STREAM
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.states import STREAMS
from ..contract.types import JOB_ID, Integer
from ..errors import SpoolctlError, invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "output",
    "show what a job wrote",
    "The latest attempt's output, or that of --attempt, whole and in any state of the job. JSON holds the "
    f"first {limits.PREVIEW_BYTES} bytes of each stream, or with --tail-bytes the last ones. --raw gives "
    "the exact bytes of one stream.",
    args=(JOB,),
    flags=(
        Flag("--attempt", JOB_ID, help="of this attempt; without it of the latest"),
        STREAM,
        Flag("--raw", help="the exact bytes of one stream; needs --stream stdout or stderr"),
        Flag("--tail-bytes", Integer(1, limits.OUTPUT_TAIL_MAX), help="only the last so many bytes"),
    ),
    exclusive=(("raw", "json"),),
    needs={"raw": ("stream",)},
    raw_with={"stream": ("stdout", "stderr")},
    examples=(
        ("spoolctl output 7", "both streams of job 7's latest attempt"),
        ("spoolctl output 7 --json --tail-bytes 1000", "the end of each stream"),
        ("spoolctl output 7 --attempt 1 --stream stdout --raw > out.bin", "attempt 1, byte for byte"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "NOT_FOUND", "SAFETY_BLOCK", "DB_INVALID",
        "DB_READONLY", "LOCKED", "INTERNAL",
    ),
    warnings=("NO_ATTEMPTS_YET",),
    modes=("envelope", "raw", "text"),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    stream = s.obj(
        path=s.nullable(s.STR),
        preview=s.nullable(s.STR),
        preview_truncated=s.BOOL,
        size_bytes=s.nullable(s.COUNT),
    )
    ran = s.obj(
        attempt_no=s.ID,
        attempt_state=s.ATTEMPT_STATE,
        attempts_total=s.COUNT,
        job_id=s.ID,
        streams=s.obj(stdout_=stream, stderr_=stream),
    )
    return s.any_of(ran, s.obj(attempts={"type": "array", "maxItems": 0}))


def run(args: Args, ctx: "Context") -> Result:
    from ..store import attempts, jobs, select

    if args.raw and args.stream not in SPEC.raw_with["stream"]:
        from ._repeat import call

        raise invalid(
            "--raw gives one stream, not both: --stream stdout, or --stream stderr",
            call(SPEC, args, ("--stream", "stdout"), without=("stream",)) or "spoolctl output --help",
            flag="--stream", value="both", choices=list(STREAMS),
        )  # fmt: skip
    db = ctx.reader()
    with db.read():
        job_id = select.one(db, args.id)
        job = jobs.get(db, job_id)
        number: "int | None" = args.attempt
        attempt = attempts.latest(db, job_id) if number is None else attempts.get(db, job_id, number)
    assert job is not None
    if attempt is None:
        if number is not None:
            raise SpoolctlError(
                "NOT_FOUND", f"job {job_id} has no attempt {number}", f"spoolctl show {job_id}",
                {"missing": [], "attempt_no": number},
            )  # fmt: skip
        warning = ("NO_ATTEMPTS_YET", f"job {job_id} is {job['state']} and has never run")
        return Result({"attempts": []}, [ctx.with_db(f"spoolctl wait {job_id}")], [warning])
    paths = dict(zip(STREAMS, attempts.paths(db.spool, attempt), strict=True))
    chosen = STREAMS if args.stream == "both" else (str(args.stream),)
    most: "int | None" = args.tail_bytes
    if not ctx.json:
        _show(ctx, attempt, {name: paths[name] for name in chosen}, most, bool(args.raw))
        return Result(streamed=True)
    answer = {
        "attempt_no": attempt["attempt_no"],
        "attempt_state": attempt["state"],
        "attempts_total": job["attempt_no"],
        "job_id": job_id,
        "streams": {name: _preview(paths[name], most) for name in chosen},
    }
    return Result(answer, [ctx.with_db(command) for command in _commands(answer)])


def _preview(path: "str | None", most: "int | None") -> "Row":
    """One stream of the answer; a file that is gone has neither a preview nor a size."""
    from ..work import preview

    if path is None:
        piece = None
    else:
        piece = preview.head(path, limits.PREVIEW_BYTES) if most is None else preview.tail(path, most)
    return {
        "path": path,
        "preview": piece.text if piece else None,
        "preview_truncated": piece.cut if piece else False,
        "size_bytes": piece.size if piece else None,
    }


def _commands(answer: "Row") -> "list[str]":
    job_id, number = answer["job_id"], answer["attempt_no"]
    found = [
        f"spoolctl output {job_id} --attempt {number} --stream {name} --raw"
        for name, stream in answer["streams"].items()
        if stream["preview_truncated"]
    ]
    return [*found, f"spoolctl {'wait' if answer['attempt_state'] == 'running' else 'feedback'} {job_id}"]


def _show(
    ctx: "Context",
    attempt: "Row",
    paths: "dict[str, str | None]",
    most: "int | None",
    raw: bool,
) -> None:
    """Pass the files on, block by block. Raises NOT_FOUND for raw bytes that are gone."""
    import os

    from ..work import preview

    files = {name: preview.opened(path) if path else None for name, path in paths.items()}
    try:
        for name, path in paths.items():
            if files[name] is None:
                _tell_missing(ctx, attempt, name, path, raw)
        full = [name for name, file in files.items() if file and file[1]]
        for i, name in enumerate(full):
            fd, size = files[name]  # type: ignore[misc]
            if raw:
                preview.copy(fd, max(0, size - (most or size)), size, ctx.out.write)
                continue
            shown = preview.Shown(ctx.out.write, ctx.out.isatty())
            if len(full) > 1:
                shown.feed(_head(attempt, name))
            preview.copy(fd, preview.tail_start(fd, size, most or size), size, shown.feed)
            shown.feed(b"", final=True)
            if shown.in_line and i + 1 < len(full):
                shown.feed(b"\n")
    finally:
        for file in files.values():
            if file:
                os.close(file[0])


def _head(attempt: "Row", stream: str) -> bytes:
    return f"=== job {attempt['job_id']} attempt {attempt['attempt_no']} {stream} ===\n".encode()


def _tell_missing(ctx: "Context", attempt: "Row", stream: str, path: "str | None", raw: bool) -> None:
    """Say that there is no file, so that it is not taken for an attempt that wrote nothing."""
    job_id, number = attempt["job_id"], attempt["attempt_no"]
    what = (
        f"{path} is not there or not readable"
        if path
        else "it was handed out as a lease, which captures nothing"
    )
    message = f"no {stream} of job {job_id} attempt {number}: {what}"
    if raw:
        raise SpoolctlError(
            "NOT_FOUND", message, f"spoolctl show {job_id}", {"missing": [], "attempt_no": number}
        )
    ctx.note(message)


def text(data: "Row", view: "View") -> str:
    streams = data.get("streams", {})
    return "".join(stream["preview"] or "" for stream in streams.values())
