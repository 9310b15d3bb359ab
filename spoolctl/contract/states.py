"""States, transitions, reasons and events, declared once (SPEC 4).

The CHECK constraints, the guards, the schemas and the docs are made from these.
"""

JOB_STATES = ("queued", "running", "done", "failed", "dead", "canceled")  # failed: reserved, never written
TERMINAL = ("done", "dead", "canceled")
ACTIVE = ("queued", "running")

# state -> the states that may follow it.
TRANSITIONS = {
    "queued": ("running", "canceled"),
    "running": ("done", "queued", "dead", "canceled"),
    "done": (),
    "dead": ("queued",),
    "canceled": ("queued",),
    "failed": (),
}

RETRIABLE = tuple(state for state in TERMINAL if "queued" in TRANSITIONS[state])

ATTEMPT_STATES = ("running", "succeeded", "failed", "timed_out", "canceled", "abandoned")

REASONS = (
    "process_exit",
    "timeout",
    "spawn_failed",
    "output_limit",
    "disk_full",
    "worker_crash",
    "worker_shutdown",
    "lease_expired",
    "rejected",
    "canceled",
    "unknown",
)

EVENTS = (
    "added",
    "claimed",
    "succeeded",
    "failed",
    "timed_out",
    "reaped",
    "interrupted",
    "stuck",
    "dead",
    "retried",
    "canceled",
    "extended",
)

OF_LEASES = ("extended",)  # events that only a lease has

KINDS = ("command", "payload")
REQUESTS = ("cancel", "requeue")
STREAMS = ("stdout", "stderr")
