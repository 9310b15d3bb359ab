"""From flags or a `--from` line to the row that is stored: one place decides what a job is made of."""

import os

from .. import jsontext, paths
from ..contract import limits
from ..contract.addflags import FLAGS
from ..contract.types import is_utf8
from ..errors import SpoolctlError, invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..context import Context
    from ..store.db import Row


USAGE = "spoolctl add --help"


class Submission:
    """One job as it was asked for: the row to store, its tags, and the scope of its key."""

    __slots__ = ("row", "scope", "tags")

    def __init__(self, row: "Row", tags: "dict[str, str]", scope: str) -> None:
        self.row = row
        self.tags = tags
        self.scope = scope


def defaults(config: "Config") -> "Row":
    """Every flag's default by dest, the config's where it has one."""
    found: "Row" = {}
    for flag in FLAGS:
        if flag.repeat:
            found[flag.dest] = []
        elif flag.type is None:
            found[flag.dest] = False
        else:
            found[flag.dest] = config.defaults[flag.config] if flag.config else flag.default
    return found


def captured(ctx: "Context") -> "str | None":
    """The submitter's variables that travel with the job, as stored."""
    values = {name: ctx.environ[name] for name in ctx.config().capture_env if name in ctx.environ}
    return jsontext.compact(values) if values else None


def submission(
    values: "Row",
    argv: "list[str]",
    ctx: "Context",
    now: float,
    captured_env: "str | None",
) -> Submission:
    """The row for parsed flag values. Raises INVALID_INPUT."""
    if not argv[0]:
        message = "the command's first word is empty: name a program to run"
        raise invalid(message, USAGE, flag="ARGV", value="")
    env = environment(values["env"], ctx)
    after, at = values["after"], values["at"]
    due, asked = now, None
    if after is not None:
        due, asked = round(now + after, 3), f"after {after}"
    elif at is not None:
        due, asked = max(now, at), f"at {at}"
    row = {
        "kind": "command",
        "queue": values["queue"],
        "priority": values["priority"],
        "next_run_at": due,
        "argv": jsontext.words(argv),
        "payload": None,
        "cwd": directory(values["cwd"], ctx),
        "env": jsontext.compact(env) if env else None,
        "captured_env": captured_env,
        "timeout": values["timeout"],
        "max_retries": values["max_retries"],
        "max_crashes": values["max_crashes"],
        "backoff_base": values["backoff_base"],
        "backoff_factor": values["backoff_factor"],
        "backoff_max": values["backoff_max"],
        "backoff_jitter": values["backoff_jitter"],
        "max_output": values["max_output"],
        "keep_children": int(bool(values["keep_children"])),
        "key": values["key"],
        "note": values["note"],
        "asked": asked,
        "created_at": now,
    }
    return Submission(row, labels(values["tag"]), str(values["key_scope"]))


def directory(given: "str | None", ctx: "Context") -> "str | bytes":
    """The directory to run in, absolute, symbolic links kept, as stored."""
    path = ctx.cwd() if given is None else os.path.normpath(os.path.join(ctx.cwd(), given))
    return path if path.isascii() or is_utf8(path) else paths.raw(path)


def environment(pairs: "list[tuple[str, str | None]]", ctx: "Context") -> "dict[str, str]":
    """The job's variables, names sorted; a name alone copies the submitter's. Raises INVALID_INPUT."""
    found: "dict[str, str]" = {}
    for key, value in pairs:
        if value is None:
            value = ctx.environ.get(key)
            if value is None:
                message = f"--env: {key!r} is not set here: write --env {key}=VALUE"
                raise invalid(message, USAGE, flag="--env", value=key)
            if len(paths.raw(value)) > limits.ENV_VALUE_MAX:
                raise invalid(
                    f"--env: the value of {key!r} is longer than {limits.ENV_VALUE_MAX} bytes",
                    USAGE,
                    flag="--env",
                    value=key,
                    maximum=limits.ENV_VALUE_MAX,
                )
        found[key] = value
    return {key: found[key] for key in sorted(found)}


def labels(pairs: "list[tuple[str, str]]") -> "dict[str, str]":
    """The job's tags. Raises INVALID_INPUT for a key given twice or too many."""
    found: "dict[str, str]" = {}
    for key, value in pairs:
        if key in found:
            message = f"--tag: {key!r} is given twice: give each tag key once"
            raise invalid(message, USAGE, flag="--tag", value=key)
        found[key] = value
    if len(found) > limits.TAGS_PER_JOB:
        raise invalid(
            f"--tag: a job has at most {limits.TAGS_PER_JOB} tags, not {len(found)}: give fewer",
            USAGE,
            flag="--tag",
            value=str(len(found)),
            maximum=limits.TAGS_PER_JOB,
        )
    return found


def differences(existing: "Row", submitted: "Row") -> "list[str]":
    """The execution fields in which two rows differ, by contract name (SPEC 3, --key)."""
    from ..store.jobs import EXECUTION

    return [name for name, columns in EXECUTION.items() if any(existing[c] != submitted[c] for c in columns)]


def conflict(job_id: object, fields: "list[str]", key: object, line: "int | None" = None) -> SpoolctlError:
    detail: "Row" = {"job_id": job_id, "fields": fields}
    if line is not None:
        detail = {"line": line, **detail}
    at = f"line {line}: " if line is not None else ""
    return SpoolctlError(
        "IDEMPOTENCY_CONFLICT",
        f"{at}key {key!r} belongs to job {job_id}, which differs in {', '.join(fields)}",
        f"spoolctl show {job_id}",
        detail,
    )
