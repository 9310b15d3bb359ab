"""The text of `show`: a job as lines of facts, its attempts and its events as tables."""

from ..terminal import ago, escaped, paint, seconds, table
from ._words import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from ..terminal import View

Job = "Row"


def card(data: "Row", view: "View") -> str:
    job: "Row" = data["job"]
    parts = [_facts(job, view)]
    attempts: "list[Row]" = data["attempts"]
    if attempts:
        rows = [_attempt(attempt, view) for attempt in attempts]
        parts.append(table(["TRY", "STATE", "STARTED", "TOOK", "WORKER", "END"], rows, view, state=1))
    events: "list[Row]" = data["events"]
    if events:
        rows = [[ago(e["at"], view), str(e["event"]), _end_of(e)] for e in events]
        parts.append(table(["WHEN", "EVENT", "DETAIL"], rows, view))
    return "\n".join(parts)


def _end_of(event: "Row") -> str:
    words = [f"by {event['worker_id']}" if event["worker_id"] else "", str(event["detail"] or "")]
    return escaped(": ".join(word for word in words if word))


def _attempt(attempt: "Row", view: "View") -> "list[str]":
    began: float = attempt["started_at"]
    until = attempt["finished_at"] if attempt["finished_at"] is not None else view.now
    end = attempt["error"]
    if end is None and attempt["exit_code"] is not None:
        end = f"exit {attempt['exit_code']}"
    return [
        str(attempt["attempt_no"]),
        str(attempt["state"]),
        ago(began, view),
        seconds(max(0.0, until - began)),
        escaped(str(attempt["worker_id"])),
        escaped(str(end or "-")),
    ]


def _facts(job: "Row", view: "View") -> str:
    lines = [f"job {job['id']}  {paint(str(job['state']), view)}  {command(job)}"]

    def fact(name: str, value: object) -> None:
        if value not in (None, "", "-"):
            lines.append(f"  {name.ljust(12)}{escaped(str(value))}")

    fact("queue", f"{job['queue']}, priority {job['priority']}")
    fact("directory", job["cwd"])
    fact("key", job["idempotency_key"])
    fact("tags", _pairs(job["tags"]))
    fact("note", job["note"])
    fact("env", _pairs(job["env"]))
    fact("captured", ", ".join(job["captured_env"]))
    fact("added", ago(job["created_at"], view))
    due: float = job["next_run_at"]
    if job["state"] == "queued" and due > view.now:
        fact("due", ago(due, view))
    fact("started", ago(job["started_at"], view))
    fact("ended", ago(job["finished_at"], view))
    fact("budget", _budget(job))
    fact("limits", _limits(job))
    if job["locked_by"] is not None:
        beat = job["heartbeat_at"]
        seen = f", seen {ago(beat, view)}" if beat is not None else ""
        fact("held by", f"{job['locked_by']} (pid {job['locked_pid']}){seen}")
    if job["cancel_requested_at"] is not None:
        fact("cancel", f"asked for {ago(job['cancel_requested_at'], view)}")
    ending: "Row | None" = job["ending"]
    if ending is not None:
        pids = " ".join(map(str, ending["pids"]))
        fact("cannot end", f"pids {pids}, since {ago(ending['since'], view)}: {ending['why']}")
    fact("last error", job["last_error"])
    return "\n".join(lines) + "\n"


def _pairs(values: object) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items())  # type: ignore[attr-defined]


def _budget(job: "Row") -> str:
    crashes = "any number" if job["max_crashes"] is None else job["max_crashes"]
    failed = int(job["attempts"]) - int(job["crashes"])
    backoff: "Row" = job["backoff"]
    wait = f"{backoff['base']}s x{backoff['factor']} up to {backoff['max']}s"
    tries = int(job["max_retries"]) + 1
    return f"{failed} of {tries} tries spent, {job['crashes']} of {crashes} crashes, backoff {wait}"


def _limits(job: "Row") -> str:
    words = []
    if job["timeout_seconds"] is not None:
        words.append(f"timeout {seconds(job['timeout_seconds'])}")
    if job["max_output_bytes"] is not None:
        words.append(f"output {job['max_output_bytes']} bytes")
    if job["keep_children"]:
        words.append("keeps children")
    return ", ".join(words)
