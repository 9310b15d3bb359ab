"""The text of `status`: lanes, workers, running jobs and recent deaths as tables."""

from ..terminal import ago, counted, cut, escaped, seconds, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from ..terminal import View

STATES = ("queued", "running", "done", "dead", "canceled")
_ALIVE = {True: "alive", False: "dead", None: "unknown"}


def board(data: "Row", view: "View") -> str:
    parts = [_lanes(data, view)]
    workers: "list[Row]" = data["workers"]
    running: "list[Row]" = data["running_jobs"]
    dead: "list[Row]" = data["recent_dead"]
    if workers:
        head = ["WORKER", "PID", "QUEUE", "BUSY", "STATE", "SINCE"]
        parts.append(table(head, _workers(workers, view), view))
    if running:
        parts.append(table(["RUNNING", "QUEUE", "TRY", "FOR", "COMMAND"], _running(running, view), view))
    if data["orphaned"]:
        lost = counted(data["orphaned"], "running job")
        owner, them = ("its", "it") if data["orphaned"] == 1 else ("their", "them")
        parts.append(f"{lost} lost {owner} worker; the next worker takes {them} back\n")
    if dead:
        parts.append(table(["DEAD", "WHEN", "TRIES", "ERROR", "COMMAND"], _dead(dead, view), view))
    return "\n".join(parts)


def _lanes(data: "Row", view: "View") -> str:
    queues: "dict[str, Row]" = data["queues"]
    if not queues:
        return "no jobs\n"
    lines = [(name, lane["counts"], lane["scheduled"]) for name, lane in queues.items()]
    if len(lines) > 1:
        lines.append(("(all)", data["counts"], data["scheduled"]))
    more = "+" if data.get("scheduled_capped") else ""
    rows = []
    for name, counts, later in lines:
        shown = f"{later}{more if later == data['scheduled'] else ''}"
        rows.append([name, *(str(counts[state]) for state in STATES), shown])
    return table(["LANE", *(state.upper() for state in STATES), "SCHEDULED"], rows, view)


def _workers(workers: "list[Row]", view: "View") -> "list[list[str]]":
    return [
        [
            escaped(str(w["worker_id"])),
            str(w["pid"]),
            str(w["queue"]),
            f"{w['running']}/{w['concurrency']}",
            _ALIVE[w["alive"]],
            ago(w["started_at"], view),
        ]
        for w in workers
    ]


def _running(running: "list[Row]", view: "View") -> "list[list[str]]":
    rows = []
    for job in running:
        note = "(orphaned) " if job["orphaned"] else "(cannot be ended) " if job["ending"] else ""
        span = seconds(max(0.0, view.now - float(job["started_at"])))
        command = note + escaped(str(job["command"]))
        rows.append([str(job["id"]), str(job["queue"]), str(job["attempt_no"]), span, command])
    return rows


def _dead(dead: "list[Row]", view: "View") -> "list[list[str]]":
    rows = []
    for job in dead:
        when = ago(job["finished_at"], view)
        error = cut(escaped(str(job["last_error"] or "-")), 28)
        rows.append([str(job["id"]), when, str(job["attempts"]), error, escaped(str(job["command"]))])
    return rows
