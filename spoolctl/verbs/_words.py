"""The words in which text answers speak of jobs: commands in one line, moments, single values."""

from ..terminal import ago, cut, escaped, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from ..terminal import View

LONGEST = 200  # characters of one value in a table


def command(job: "Row") -> str:
    """A job's words joined by a blank, or its payload, controls escaped."""
    argv = job.get("argv")
    if isinstance(argv, list):
        return escaped(cut(" ".join(argv), LONGEST))
    from .. import jsontext

    return escaped(cut(jsontext.compact(job.get("payload")), LONGEST))


def when(job: "Row", view: "View") -> str:
    """The moment that tells most about a job in its state."""
    state = job["state"]
    if state == "running":
        return f"for {_span(job['started_at'], view)}"
    if state == "queued":
        due: float = job["next_run_at"]
        return ago(due, view) if due > view.now else f"waits {_span(due, view)}"
    return ago(job["finished_at"], view)


def _span(since: object, view: "View") -> str:
    return "-" if since is None else seconds(max(0.0, view.now - float(since)))  # type: ignore[arg-type]


def field(name: str, value: object, view: "View") -> str:
    """One value of a job in a table's cell."""
    if value is None:
        return "-"
    if name.endswith("_at"):
        return ago(value, view)  # type: ignore[arg-type]
    if name == "argv":
        return command({"argv": value})
    if name == "tags":
        return escaped(cut(" ".join(f"{k}={v}" for k, v in value.items()), LONGEST)) or "-"  # type: ignore[attr-defined]
    if isinstance(value, str):
        return escaped(cut(value, LONGEST))
    from .. import jsontext

    return escaped(cut(jsontext.compact(value), LONGEST))
