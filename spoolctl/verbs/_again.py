"""The `add` line that repeats a job: every flag whose value is not the default."""

from ..contract.addflags import FLAGS
from ..terminal import line_of
from ._repeat import option, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row

_ASIDE = ("after", "at", "key_scope", "cwd", "env", "tag")


def add_line(ctx: "Context", row: "Row", tags: "dict[str, str]", **changed: object) -> str:
    """`spoolctl add …` for a job's row, with some columns `changed`. Raises ValueError where no line makes
    the job again from here.

    Variables stand by name, to be copied from where the line is run: their values are not for messages.
    """
    from ..store import jobs

    row = {**row, **changed}
    command, env = jobs.words(row["argv"]), jobs.variables(row["env"])
    if row["kind"] != "command" or not command or env is None:
        raise ValueError("it is no command")
    elsewhere = [name for name, value in env.items() if ctx.environ.get(name) != value]
    if elsewhere:
        raise ValueError(f"here {', '.join(sorted(elsewhere)[:10])} has another value")
    defaults = ctx.config().defaults
    words = ["spoolctl", "add"]
    for flag in FLAGS:
        default = defaults[flag.config] if flag.config else flag.default
        if flag.dest in _ASIDE or row[flag.dest] == default:
            continue
        if flag.type is None:
            words += [flag.name] if row[flag.dest] else []
        else:
            value = row[flag.dest]
            words += option(flag.name, "none" if value is None else written(value))
    words += option("--cwd", jobs.loaded(row["cwd"]) or "/")
    for name in sorted(env):
        words += option("--env", name)
    for key, tag in tags.items():
        words += option("--tag", f"{key}={tag}")
    line = line_of([*words, "--", *command])
    if line is None:
        raise ValueError("its command is too long for a line")
    return line
