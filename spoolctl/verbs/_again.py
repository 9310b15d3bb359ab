"""The `add` line that repeats a job: every flag whose value is not the default."""

from ..contract.addflags import FLAGS
from ..terminal import quoted
from ._repeat import option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row

_ASIDE = ("after", "at", "key_scope", "cwd", "env", "tag")


def add_line(row: "Row", tags: "dict[str, str]", **changed: object) -> str:
    """`spoolctl add …` for a job's row, with some columns `changed`.

    Variables stand by name, to be copied from where the line is run: their values are not for messages.
    """
    from ..store import jobs

    row = {**row, **changed}
    words = ["spoolctl", "add"]
    for flag in FLAGS:
        if flag.dest in _ASIDE or row[flag.dest] == flag.default:
            continue
        if flag.type is None:
            words += [flag.name] if row[flag.dest] else []
        else:
            value = row[flag.dest]
            words += option(flag.name, "none" if value is None else str(value))
    words += option("--cwd", jobs.loaded(row["cwd"]) or "/")
    for name in sorted(jobs.variables(row["env"]) or ()):
        words += option("--env", name)
    for key, tag in tags.items():
        words += option("--tag", f"{key}={tag}")
    return " ".join(map(quoted, [*words, "--", *(jobs.words(row["argv"]) or [])]))
