"""add: put jobs on disk. When it says so, they are there, also after a power cut."""

from .. import clock
from ..contract.addflags import FLAGS
from ..contract.spec import Arg, Args, Flag, Result, Verb
from ..contract.types import PATH, Command
from ..errors import SpoolctlError
from . import _adding, _job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "add",
    "put a command, or many, into the queue",
    "Everything after the first -- is the command, exactly as it is to be run; no shell is involved "
    "unless -c asks for one. The job runs in the present directory, with this PATH. When add answers, "
    "the job is on disk.",
    args=(Arg("ARGV", Command(), "remainder", "the command and its words"),),
    flags=(
        Flag("-c", Command(), help="a shell command line instead: sh -c STRING"),
        Flag("--from", PATH, help="add one job a line of this file; - is standard input"),
        *FLAGS,
    ),
    exclusive=(("after", "at"), ("c", "argv"), ("from", "argv"), ("c", "from")),
    needs={"key_scope": ("key", "from")},
    one_of=("argv", "c", "from"),
    examples=(
        ("spoolctl add -- make test", "run make test here, as soon as a worker is free"),
        ("spoolctl add -c 'curl -s example.org | wc -c' --max-retries 5", "a pipeline, with five retries"),
        ("spoolctl add --key nightly --after 1h -- ./backup.sh", "in an hour, unless one is already waiting"),
        ("printf 'gzip a\\ngzip b\\n' | spoolctl add --from -", "one job a line"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "IDEMPOTENCY_CONFLICT", "SAFETY_BLOCK",
        "DB_INVALID", "DB_READONLY", "LOCKED", "DISK_FULL", "INTERNAL",
    ),
    warnings=("DB_CREATED", "NO_WORKER", "IDEMPOTENCY_METADATA_DIFFERS"),
    mutates=True,
    idempotent=False,
    stdin="with --from -: one job a line",
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    value = s.any_of(s.STR, s.NUM, s.TAGS, {"type": "null"})
    difference = s.obj(existing=value, submitted=value)
    one = s.obj(
        job_id=s.ID,
        state=s.JOB_STATE,
        deduplicated=s.BOOL,
        next_run_at=s.TIME,
        priority=s.INT,
        queue=s.STR,
        cwd=s.nullable(s.STR),
        env_keys=s.arr(s.STR),
        idempotency_=s.obj(
            key=s.STR,
            metadata_differs=s.BOOL,
            metadata_differences=s.obj(tags_=difference, note_=difference, schedule_=difference),
        ),
    )
    many = s.obj(
        added=s.COUNT,
        deduplicated=s.COUNT,
        first_id=s.nullable(s.ID),
        last_id=s.nullable(s.ID),
        job_ids=s.nullable(s.arr(s.ID)),
    )
    return s.any_of(one, many)


def run(args: Args, ctx: "Context") -> Result:
    values = _job.defaults(ctx.config())
    values.update((dest, getattr(args, dest)) for dest in args.given if dest in values)
    if "from" in args.given:
        from . import _from

        return _from.run(getattr(args, "from"), values, ctx)
    argv = args.argv if "argv" in args.given else ["sh", "-c", args.c]
    if "c" in args.given and not args.c:
        message = "-c needs a command line that is not empty: -c 'COMMAND'"
        raise SpoolctlError("MISSING_REQUIRED", message, "spoolctl add --help")
    now = clock.now()
    submission = _job.submission(values, argv, ctx, now, _job.captured(ctx))
    db = _adding.open_queue(ctx)
    existing, job_id = _store(db, submission)
    if existing is None:
        row, warnings = dict(submission.row, id=job_id, state="queued"), []
        differences: "Row" = {}
    else:
        row = existing
        differences = _adding.metadata_differences(db, existing, submission.row, submission.tags)
        warnings = _adding.metadata_warning(row["id"], differences)
    commands = [f"spoolctl {verb} {row['id']}" for verb in ("wait", "feedback", "output")]
    if row["state"] == "queued" and row["next_run_at"] <= now:
        unserved = _adding.lane_warning(ctx, db, str(row["queue"]))
        if unserved:
            warnings += unserved
            commands.insert(0, _adding.drain_line(ctx, str(row["queue"])))
    _adding.after_bulk(db)
    answer = _answer(row, existing is not None)
    if submission.row["key"] is not None:
        answer["idempotency"] = {
            "key": submission.row["key"],
            "metadata_differs": bool(differences),
            "metadata_differences": differences,
        }
    return Result(answer, [ctx.with_db(c) for c in commands], warnings)


def _store(db: "Db", submission: "_job.Submission") -> "tuple[Row | None, int]":
    """(the job that has the key already, id), or (None, the new job's id). Raises IDEMPOTENCY_CONFLICT."""
    from ..store import jobs

    row = submission.row
    key, queue = row["key"], str(row["queue"])
    with db.write() as conn:
        if key is not None:
            existing = jobs.active_by_key(db, queue, str(key))
            if existing is None and submission.scope == "kept":
                existing = jobs.kept_by_key(db, queue, str(key))
            if existing is not None:
                fields = _job.differences(existing, row) if submission.scope == "active" else []
                if fields:
                    raise _job.conflict(existing["id"], fields, key)
                return existing, int(existing["id"])
        return None, jobs.insert(conn, row, submission.tags)


def _answer(row: "Row", deduplicated: bool) -> "Row":
    from ..store import jobs

    return {
        "job_id": row["id"],
        "state": row["state"],
        "deduplicated": deduplicated,
        "next_run_at": row["next_run_at"],
        "priority": row["priority"],
        "queue": row["queue"],
        "cwd": jobs.loaded(row["cwd"]),
        "env_keys": sorted(jobs.variables(row["env"]) or ()),
    }


def text(data: "Row", view: "View") -> str:
    if "job_id" not in data:
        return _added(data)
    from ..terminal import ago

    if data["deduplicated"]:
        return f"job {data['job_id']} is there already ({data['state']})\n"
    due = float(data["next_run_at"])
    when = f", due {ago(due, view)}" if due > view.now else ""
    return f"job {data['job_id']} added{when}\n"


def _added(data: "Row") -> str:
    from ..terminal import counted

    first, last = data["first_id"], data["last_id"]
    ids = "" if first is None else f": {first}" if first == last else f": {first} to {last}"
    were = "was" if data["deduplicated"] == 1 else "were"
    return f"added {counted(data['added'], 'job')}{ids}, {data['deduplicated']} {were} there already\n"
