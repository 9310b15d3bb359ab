"""The text of `show`: a job as lines of facts, its attempts and its events as tables."""

from ..terminal import ago, escaped, paint, seconds, table
from ._words import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..terminal import View

Job = "dict[str, object]"


def card(data: "dict[str, object]", view: "View") -> str:
    job: "dict[str, object]" = data["job"]  # type: ignore[assignment]
    parts = [_facts(job, view)]
    attempts: "list[dict[str, object]]" = data["attempts"]  # type: ignore[assignment]
    if attempts:
        rows = [_attempt(attempt, view) for attempt in attempts]
        parts.append(table(["TRY", "STATE", "STARTED", "TOOK", "WORKER", "END"], rows, view, state=1))
    events: "list[dict[str, object]]" = data["events"]  # type: ignore[assignment]
    if events:
        rows = [[ago(e["at"], view), str(e["event"]), _end_of(e)] for e in events]  # type: ignore[arg-type]
        parts.append(table(["WHEN", "EVENT", "DETAIL"], rows, view))
    return "\n".join(parts)


def _end_of(event: "dict[str, object]") -> str:
    words = [f"by {event['worker_id']}" if event["worker_id"] else "", str(event["detail"] or "")]
    return escaped(": ".join(word for word in words if word))


def _attempt(attempt: "dict[str, object]", view: "View") -> "list[str]":
    began: float = attempt["started_at"]  # type: ignore[assignment]
    until = attempt["finished_at"] if attempt["finished_at"] is not None else view.now
    end = attempt["error"]
    if end is None and attempt["exit_code"] is not None:
        end = f"exit {attempt['exit_code']}"
    return [
        str(attempt["attempt_no"]),
        str(attempt["state"]),
        ago(began, view),
        seconds(max(0.0, until - began)),  # type: ignore[operator]
        escaped(str(attempt["worker_id"])),
        escaped(str(end or "-")),
    ]


def _facts(job: "dict[str, object]", view: "View") -> str:
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
    fact("captured", ", ".join(job["captured_env"]))  # type: ignore[arg-type]
    fact("added", ago(job["created_at"], view))  # type: ignore[arg-type]
    due: float = job["next_run_at"]  # type: ignore[assignment]
    if job["state"] == "queued" and due > view.now:
        fact("due", ago(due, view))
    fact("started", ago(job["started_at"], view))  # type: ignore[arg-type]
    fact("ended", ago(job["finished_at"], view))  # type: ignore[arg-type]
    fact("budget", _budget(job))
    fact("limits", _limits(job))
    if job["locked_by"] is not None:
        beat = job["heartbeat_at"]
        seen = f", seen {ago(beat, view)}" if beat is not None else ""  # type: ignore[arg-type]
        fact("held by", f"{job['locked_by']} (pid {job['locked_pid']}){seen}")
    if job["cancel_requested_at"] is not None:
        fact("cancel", f"asked for {ago(job['cancel_requested_at'], view)}")  # type: ignore[arg-type]
    ending: "dict[str, object] | None" = job["ending"]  # type: ignore[assignment]
    if ending is not None:
        pids = " ".join(map(str, ending["pids"]))  # type: ignore[call-overload]
        fact("cannot end", f"pids {pids}, since {ago(ending['since'], view)}: {ending['why']}")  # type: ignore[arg-type]
    fact("last error", job["last_error"])
    return "\n".join(lines) + "\n"


def _pairs(values: object) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items())  # type: ignore[attr-defined]


def _budget(job: "dict[str, object]") -> str:
    crashes = "any number" if job["max_crashes"] is None else job["max_crashes"]
    failed = int(job["attempts"]) - int(job["crashes"])  # type: ignore[call-overload]
    backoff: "dict[str, object]" = job["backoff"]  # type: ignore[assignment]
    wait = f"{backoff['base']}s x{backoff['factor']} up to {backoff['max']}s"
    return f"{failed} of {job['max_retries']} retries, {job['crashes']} of {crashes} crashes, backoff {wait}"


def _limits(job: "dict[str, object]") -> str:
    words = []
    if job["timeout_seconds"] is not None:
        words.append(f"timeout {seconds(job['timeout_seconds'])}")  # type: ignore[arg-type]
    if job["max_output_bytes"] is not None:
        words.append(f"output {job['max_output_bytes']} bytes")
    if job["keep_children"]:
        words.append("keeps children")
    return ", ".join(words)
