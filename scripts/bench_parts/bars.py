"""Every metric with its bar: the one place where either stands.

A section is a function that measures several metrics in one go; `--only` takes the name of either.
"""

import operator

SIGNS = {"<=": operator.le, ">=": operator.ge, ">": operator.gt}


class Metric:
    """`figure` says how the samples become the value: their median, or the worst (largest) of them."""

    def __init__(self, name, section, what, unit="x", bar=None, figure="median"):
        self.name, self.section, self.what, self.unit, self.figure = name, section, what, unit, figure
        self.sign, self.bar = bar or (None, None)

    def met(self, value):
        """Whether a value is as it should be, None where nothing is asked."""
        if self.bar is None:
            return None
        return SIGNS[self.sign](value, self.bar)


def at_most(bar):
    return "<=", bar


def at_least(bar):
    return ">=", bar


def more_than(bar):
    return ">", bar


PASS = "/ python -c pass, a worker attached"
START = at_most(2.8)
GROWN = at_most(1.3)
GROWING = (
    "add", "status", "list", "list_state", "list_queue", "list_both", "list_tag", "list_key", "show", "claim",
    "drain", "cancel",
)  # fmt: skip
KINDS = {"finished": "finished jobs with their history", "delayed": "delayed jobs over five priorities"}

METRICS = (
    Metric("add", "start", PASS, bar=at_most(2.2)),
    Metric("add_json", "start", PASS),
    Metric("status", "start", PASS, bar=START),
    Metric("show", "start", PASS, bar=START),
    Metric("feedback", "start", PASS, bar=START),
    Metric("cancel", "start", PASS, bar=START),
    Metric("retry", "start", PASS, bar=START),
    Metric("work_once", "start", "/ python -c pass, an empty lane", bar=at_most(3.5)),
    Metric("bulk", "bulk", "100 000 command lines, the whole call", "jobs/s", at_least(100_000)),
    Metric("bulk_json", "bulk", "100 000 JSON lines, the whole call", "jobs/s"),
    Metric("bulk_lock", "bulk", "longest wait of another writer meanwhile", "s", at_most(0.6), "worst"),
    Metric("drain", "drain", "/ durable Popen loop", bar=at_least(0.75)),
    Metric("drain_bare", "drain", "/ Popen loop without fdatasync"),
    Metric("drain_rate", "drain", "one worker, true", "jobs/s"),
    Metric("drain_j2", "parallel", "-j 2 / xargs -P2 -n1 true", bar=at_least(0.5)),
    Metric("drain_two", "parallel", "two workers / xargs -P2 -n1 true", bar=at_least(0.5)),
    Metric("drain_j8", "parallel", "-j 8 / xargs -P2 -n1 true", bar=at_least(0.75)),
    Metric("wake_median", "wake", "add returned -> command starts, median", "ms", at_most(10)),
    Metric("wake_worst", "wake", "the same, worst", "ms", at_most(60), "worst"),
    Metric("cancel_gone", "canceling", "cancel returned -> command gone, worst", "ms", at_most(100), "worst"),
    Metric("cancel_whole", "canceling", "cancel called -> command gone", "ms"),
    Metric("recovery_noticed", "recovery", "SIGKILL -> reaped (its old tree ended)", "s", at_most(2)),
    Metric("recovery_apart", "recovery", "SIGKILL -> starts elsewhere, less backoff", "s", at_most(2)),
    Metric("recovery_again", "recovery", "SIGKILL -> starts elsewhere", "s"),
    Metric("idle_cpu", "idle", "of one core, an idle worker", "%", at_most(0.2)),
    Metric("idle_memory", "idle", "resident, an idle worker", "MiB", at_most(18)),
    *(
        Metric(f"{kind}_{verb}", f"growth_{kind}", f"1 000 000 / 1 000 {text}", bar=GROWN)
        for kind, text in KINDS.items()
        for verb in GROWING
    ),
    Metric("prune_lock", "prune", "longest wait of another writer meanwhile", "ms", at_most(50), "worst"),
    Metric("prune_rate", "prune", "100 000 of 1 000 000 jobs", "jobs/s"),
    Metric("prune_beside", "prune", "jobs/s of a worker beside it / alone", bar=more_than(0)),
    Metric("prune_pause", "prune", "longest time that worker ended no job", "ms", None, "worst"),
    Metric("output_memory", "output", "peak, output --tail-bytes of 1 GiB", "MiB", at_most(30), "worst"),
    Metric("output_time", "output", "/ the same of a small file", bar=at_most(1.2)),
    Metric("contention_locked", "contention", "LOCKED of 16 x 100 add, 4 workers", "calls", at_most(0)),
    Metric("contention_p99", "contention", "p99 / p99 of 16 x python -c pass", bar=at_most(3)),
    Metric("contention_rate", "contention", "16 adders, 4 workers draining", "adds/s"),
    Metric("gate_rate", "gate", "commits/s, gate / built-in busy handler"),
    Metric("gate_p99", "gate", "p99 of a commit, gate / built-in busy handler"),
    Metric("gate_worst", "gate", "slowest commit, gate / built-in busy handler"),
    Metric("watchers", "watchers", "commits/s of a writer, 12 idle workers / alone", bar=at_least(0.4)),
)
BY_NAME = {metric.name: metric for metric in METRICS}
SECTIONS = tuple(dict.fromkeys(metric.section for metric in METRICS))
