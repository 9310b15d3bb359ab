"""The text of `feedback`: a line of verdict, a hint where the reason has a remedy, the output's end."""

from ..terminal import escaped, escaped_lines, paint, seconds, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from ..terminal import View

# failure reason -> what helps
_HINTS = {
    "timeout": "it ran into its time limit: add it with a higher --timeout, or with --timeout none",
    "output_limit": "it wrote too much: add it with a higher --max-output",
    "disk_full": "make room on the device, then retry it",
    "spawn_failed": "the command could not be started: see the error, its PATH and its directory",
    "worker_crash": "its worker died while it ran, and may have been killed for want of memory",
}
_SIGKILL = (
    "SIGKILL that nobody here sent: often the kernel's OOM killer, when memory ran out; "
    "`dmesg` or `journalctl -k` tell"
)


def verdict(data: "Row", view: "View") -> str:
    lines = [f"job {data['job_id']}  {paint(str(data['state']), view)}  {_facts(data)}".rstrip()]
    if data["last_error"] not in (None, f"exit {data['exit_code']}", data["failure_reason"]):
        lines.append(f"  {escaped(str(data['last_error']))}")
    hint = _hint(data)
    if hint:
        lines.append(f"  hint: {hint}")
    if data["remediation"] is not None:
        lines.append(f"  next: {escaped(str(data['remediation']))}")
    for name, stream in data["streams"].items():
        lines += _stream(name, stream)
    return "\n".join(lines) + "\n"


def _facts(data: "Row") -> str:
    words = []
    if data["terminal"] and data["exit_code"] is not None and data["signal"] is None:
        words.append(f"exit {data['exit_code']}")
    if data["failure_reason"] is not None:
        words.append(str(data["failure_reason"]))
    if data["latest_attempt_no"] is None:
        words.append("never ran")
    else:
        words.append(f"attempt {data['latest_attempt_no']}")
    if data["duration_seconds"] is not None:
        words.append(f"took {seconds(data['duration_seconds'])}")
    return ", ".join(words)


def _hint(data: "Row") -> "str | None":
    if data["failure_reason"] == "process_exit":  # whatever else ends in SIGKILL was killed by us
        if data["signal"] == "SIGKILL":
            return _SIGKILL
        if data["exit_code"] == 127:
            return "127 is a shell's word for a command that was not found"
    return _HINTS.get(str(data["failure_reason"]))


def _stream(name: str, stream: "Row") -> "list[str]":
    if stream["path"] is None:
        return []
    if stream["missing"]:
        return [f"--- {name}: {escaped(str(stream['path']))} is gone ---"]
    if not stream["size_bytes"]:
        return []
    whole = size(int(stream["size_bytes"]))
    head = f"--- {name}, the end of {whole} ---" if stream["truncated"] else f"--- {name} ---"
    return [head, escaped_lines(str(stream["tail"])).rstrip("\n")]
