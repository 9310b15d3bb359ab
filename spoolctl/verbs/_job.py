"""From flags or a `--from` line to the row that is stored: one place decides what a job is made of."""

import os

from .. import jsontext, paths
from ..contract import limits
from ..contract.addflags import FLAGS
from ..contract.types import BadValue, is_utf8
from ..errors import SpoolctlError, invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..context import Context

# Fields compared between two jobs of one key: contract name -> columns. Values of env never show.
PAYLOAD = {
    "argv": ("argv",),
    "payload": ("payload",),
    "cwd": ("cwd",),
    "env": ("env",),
    "timeout": ("timeout",),
    "max_retries": ("max_retries",),
    "max_crashes": ("max_crashes",),
    "backoff": ("backoff_base", "backoff_factor", "backoff_max", "backoff_jitter"),
    "priority": ("priority",),
    "max_output": ("max_output",),
    "keep_children": ("keep_children",),
}


class Submission:
    """One job as it was asked for: the row to store, its tags, and the scope of its key."""

    __slots__ = ("row", "scope", "tags")

    def __init__(self, row: "dict[str, object]", tags: "dict[str, str]", scope: str) -> None:
        self.row = row
        self.tags = tags
        self.scope = scope


def defaults(config: "Config") -> "dict[str, object]":
    """Every flag's default by dest, the config's where it has one."""
    found: "dict[str, object]" = {}
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
    values: "dict[str, object]",
    argv: "list[str]",
    ctx: "Context",
    now: float,
    captured_env: "str | None",
) -> Submission:
    """The row for parsed flag values. Raises INVALID_INPUT."""
    if not argv[0]:
        raise invalid("the command's first word is empty", "name a program to run", flag="ARGV", value="")
    env = environment(values["env"], ctx)  # type: ignore[arg-type]
    after, at = values["after"], values["at"]
    due, asked = now, None
    if after is not None:
        due, asked = round(now + after, 3), f"after {after}"  # type: ignore[operator]
    elif at is not None:
        due, asked = max(now, at), f"at {at}"  # type: ignore[type-var, assignment]
    row = {
        "kind": "command",
        "queue": values["queue"],
        "priority": values["priority"],
        "next_run_at": due,
        "argv": jsontext.compact(argv),
        "payload": None,
        "cwd": directory(values["cwd"], ctx),  # type: ignore[arg-type]
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
    return Submission(row, labels(values["tag"]), str(values["key_scope"]))  # type: ignore[arg-type]


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
                raise invalid(
                    f"--env: {key!r} is not set here", f"write --env {key}=VALUE", flag="--env", value=key
                )
            if len(paths.raw(value)) > limits.ENV_VALUE_MAX:
                raise invalid(
                    f"--env: the value of {key!r} is too long",
                    f"values have at most {limits.ENV_VALUE_MAX} bytes",
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
            raise invalid(f"--tag: {key!r} is given twice", "give each tag key once", flag="--tag", value=key)
        found[key] = value
    if len(found) > limits.TAGS_PER_JOB:
        raise invalid(
            f"--tag: a job has at most {limits.TAGS_PER_JOB} tags",
            "give fewer tags",
            flag="--tag",
            value=str(len(found)),
            maximum=limits.TAGS_PER_JOB,
        )
    return found


_LINE_NAMES = {flag.dest: flag for flag in FLAGS}
_SPELLINGS = {"tags": "tag"}


def line_values(text: str, base: "dict[str, object]") -> "tuple[dict[str, object], list[str]]":
    """(flag values, argv) of one `--from` line: a JSON object, or a shell command.

    Raises ValueError or BadValue with the problem; the caller knows the line's number.
    """
    if not text.startswith("{"):
        return base, ["sh", "-c", text]
    item = jsontext.loads(text)
    assert isinstance(item, dict)
    values = dict(base)
    argv: "list[str] | None" = None
    for name, value in item.items():
        if name in ("argv", "command"):
            if argv is not None:
                raise ValueError("argv and command exclude each other")
            argv = _line_command(name, value)
            continue
        dest = _SPELLINGS.get(name, name)
        flag = _LINE_NAMES.get(dest)
        if flag is None:
            raise ValueError(f"unknown key {name!r}")
        try:
            if flag.type is None:
                if not isinstance(value, bool):
                    raise BadValue("must be true or false")
                values[dest] = value
            elif flag.repeat:
                values[dest] = [*base[dest], *_line_pairs(flag.type, value)]  # type: ignore[misc]
            elif value is None and not flag.type.none:
                values[dest] = None if flag.default is None else base[dest]
            else:
                values[dest] = flag.type.check(value)
        except BadValue as bad:
            raise ValueError(f"{name} {bad.message}") from None
    if argv is None:
        raise ValueError("needs argv or command")
    if "after" in item and "at" in item:
        raise ValueError("after and at exclude each other")
    if "after" in item:
        values["at"] = None
    elif "at" in item:
        values["after"] = None
    return values, argv


def _line_command(name: str, value: object) -> "list[str]":
    if name == "command":
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError("command must be text that is not empty, without NUL")
        return ["sh", "-c", value]
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(word, str) and "\0" not in word for word in value)
    ):
        raise ValueError("argv must be a list of words without NUL")
    if not value[0]:
        raise ValueError("argv: the first word is empty")
    return value


def _line_pairs(kind: object, value: object) -> "list[tuple[str, object]]":
    if isinstance(value, dict):
        pairs = []
        for key, item in value.items():
            if item is not None and not isinstance(item, str):
                raise BadValue("must have text values")
            pairs.append(kind.pair(key, item))  # type: ignore[attr-defined]
    elif isinstance(value, list):
        pairs = [kind.check(item) for item in value]  # type: ignore[attr-defined]
    elif isinstance(value, str):
        pairs = [kind.parse(value)]  # type: ignore[attr-defined]
    else:
        raise BadValue("must be an object or a list")
    return pairs


def differences(existing: "dict[str, object]", submitted: "dict[str, object]") -> "list[str]":
    """The execution fields in which two rows differ, by contract name (SPEC 3, --key)."""
    return [name for name, columns in PAYLOAD.items() if any(existing[c] != submitted[c] for c in columns)]


def conflict(job_id: object, fields: "list[str]", key: object, line: "int | None" = None) -> SpoolctlError:
    detail: "dict[str, object]" = {"job_id": job_id, "fields": fields}
    if line is not None:
        detail = {"line": line, **detail}
    at = f"line {line}: " if line is not None else ""
    return SpoolctlError(
        "IDEMPOTENCY_CONFLICT",
        f"{at}key {key!r} belongs to job {job_id}, which differs in {', '.join(fields)}",
        f"spoolctl show {job_id}",
        detail,
    )
