"""The text of `wait`: how many ended how, and those that are not done one by one."""

from ..terminal import escaped, escaped_lines, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from ..terminal import View

ROWS = 50


def outcome(data: "Row", view: "View") -> str:
    jobs: "dict[str, Row]" = data["jobs"]
    others = [(job_id, job) for job_id, job in jobs.items() if job["state"] != "done"]
    parts = [
        _total(data, jobs) + "\n",
        table(["ID", "STATE", "TRIES", "ERROR"], _rows(others), view, state=1),
    ]
    for job_id, job in others[:ROWS]:
        for name, stream in job.get("streams", {}).items():
            if stream["tail"]:
                end = escaped_lines(stream["tail"]).rstrip("\n")
                parts.append(f"--- job {job_id} {name} ---\n{end}\n")
    return "".join(parts)


def _total(data: "Row", jobs: "dict[str, Row]") -> str:
    words = [f"{n} {state}" for state, n in data["counts"].items()]
    pruned = sum(job["state"] is None for job in jobs.values())
    if pruned:
        words.append(f"{pruned} pruned")
    return ", ".join(words) or "nothing to wait for"


def _rows(others: "list[tuple[str, Row]]") -> "list[list[str]]":
    rows = []
    for job_id, job in others[:ROWS]:
        error = escaped(str(job.get("last_error") or "-"))
        rows.append([job_id, str(job["state"] or "pruned"), str(job.get("attempts", "-")), error])
    if len(others) > ROWS:
        rows.append(["...", "", "", f"and {len(others) - ROWS} more"])
    return rows
