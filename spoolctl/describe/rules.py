"""The rules of time, of running and of recovery, in words, with the numbers of the contract (SPEC 4-6)."""

from .. import config, paths
from ..contract import limits, states, types
from ..contract.addflags import FLAGS
from ..contract.spec import Flag, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_FLAG = {flag.dest: flag for flag in FLAGS}


def seconds(value: float) -> str:
    return f"{value:g} s"


def scheduling(specs: "dict[str, Verb]") -> "Json":
    priority = types.PRIORITY
    return {
        "duration_grammar": types.Duration.grammar,
        "at_timestamp": f"{types.TIMESTAMP.grammar}; without an offset in the zone of the submitter; "
        "the past means now",
        "finite_numeric_inputs": [
            f"{verb} {flag.name}"
            for verb, spec in specs.items()
            for flag in spec.flags
            if isinstance(flag.type, (types.Integer, types.Float, types.Duration, types.Timestamp))
        ],
        "priority": {
            "default": _FLAG["priority"].default,
            "min": priority.minimum,
            "max": priority.maximum,
            "ordering": "the highest priority first, then the earliest next_run_at, then the lowest id",
        },
        "queue": {
            "default": config.DEFAULTS["queue"],
            "grammar": types.LANE.grammar,
            "single_lane_worker": "a worker claims jobs of one lane; it brings back dead workers' jobs "
            "of every lane",
        },
        "slots": {
            "scope": "every running job of the lane, whoever runs it",
            "opt_in": "work --slots N",
            "fleet_global": True,
            "default_ceiling": None,
            "claimed_false": "with all slots taken work --once answers claimed false",
        },
        "scheduled": {
            "predicate": "state is queued and next_run_at is in the future",
            "includes": ["delayed by --after or --at", "in backoff after an unsuccessful attempt"],
            "counts_included_in": "counts.queued of status",
        },
        "drain": {
            "scope": "the lane of the worker",
            "holds_for": ["running jobs", "due jobs", "queued jobs with attempts > 0 (in backoff)"],
            "skips": "delayed jobs that never ran; running jobs whose owner cannot be judged or whose "
            "tree is stuck: they are named in data.unsettled",
        },
    }


def execution(specs: "dict[str, Verb]") -> "Json":
    return {
        "cwd": {
            "flag": "--cwd",
            "default": "the directory of the submitter at add",
            "resolution": "made absolute at add; symbolic links are kept",
            "runtime_failure": "a directory that is missing then: failed, spawn_failed",
        },
        "env_overrides": {
            "flag": "--env",
            "repeatable": _FLAG["env"].repeat,
            "grammar": _flag_type(_FLAG["env"]).grammar,
            "semantics": "the worker's environment, then the captured variables of the submitter "
            "(capture_env of the config), then --env, then the variables given to every job; of one name "
            "given twice the last counts",
            "values_stored_plaintext": True,
            "values_in_add_or_list": False,
            "values_in_show": True,
        },
        "retry_model": _retry_model(),
        "tree": _tree(specs),
        "recovery": _recovery(),
    }


def _flag_type(flag: Flag) -> types.Type:
    assert flag.type is not None
    return flag.type


def _retry_model() -> "Json":
    return {
        "attempts": "unsuccessful executions since add or the last retry; attempt_no counts every "
        "execution and is never reset",
        "job_owned_failures": "an exit status, a timeout, a command that cannot start, a limit or a "
        "full disk: these spend max_retries; queued again while attempts - crashes <= max_retries",
        "worker_crashes": "the worker died: spends max_crashes, not max_retries; an orderly stop of "
        "the worker spends neither",
        "max_retries": {
            "default": config.DEFAULTS["max_retries"],
            "meaning": "so many executions more after the first failure",
            "zero": "the first failure is final",
            "one": "one execution more",
        },
        "max_crashes": {
            "default": config.DEFAULTS["max_crashes"],
            "meaning": "queued again while crashes <= max_crashes; none: always",
            "zero": "the first crash is final",
            "one": "queued again after the first crash, dead after the second",
        },
        "backoff": "min(max, base * factor^(n-1)) seconds before the try after the n-th unsuccessful "
        "execution; of that the share jitter is drawn at random once; retry is due at once",
        "wait_drain": "wait and work --drain wait for jobs in backoff: settled is "
        + ", ".join(states.TERMINAL[:-1])
        + f" or {states.TERMINAL[-1]}",
    }


def _tree(specs: "dict[str, Verb]") -> "Json":
    grace = specs["work"].flag("grace")
    assert grace is not None
    return {
        "members": [
            "in the session or process group of the command",
            "with the attempt's token in its environment",
            "descended from the command, or adopted from it (Linux)",
            "holding the lock of the attempt's output files",
        ],
        "ended_by": [
            "timeout",
            "cancel",
            "retry --force",
            "limits",
            "a stop of the worker",
            "reaping",
            "the end of the command",
        ],
        "signals": "TERM and CONT, after the grace KILL; to every member, until none is left",
        "grace": {"flag": "work --grace", "default": grace.default, "unit": "seconds"},
        "end_of_command": "the end of its first process, not the end of its output; what it left "
        "behind is ended before the result is recorded",
        "keep_children": "add --keep-children leaves it, at the normal end only",
        "stuck": f"what is not gone {seconds(limits.AFTER_KILL)} after KILL is shown as ending; the "
        "job stays running and its slot taken until it is gone",
    }


def _recovery() -> "Json":
    return {
        "proof_of_death": "the worker's lock beside the database is free, or its process is gone (pid, "
        "start time and boot); never the age of a heartbeat",
        "unknown": "an owner that cannot be judged from here is never reaped by itself; retry --force "
        "--unverified or cancel --running --yes --unverified decides",
        "noticed_within_seconds": limits.NOTICED_WITHIN,
        "who": f"every worker of every lane, at its start and every {seconds(limits.OWNERS_EVERY)}; the "
        "next one to start where none lives",
        "order": "the old tree is ended and proven gone, then the job is queued again with backoff, or "
        "dead when max_crashes is spent",
        "never_twice": "no second attempt starts before the first one's tree is proven gone; "
        "add --keep-children and retry --force --unverified are the exceptions",
        "at_least_once": "a command whose worker died after it finished and before its result was "
        "recorded runs again",
        "heartbeat_seconds": limits.HEARTBEAT,
        "late_results": "refused: a result is recorded only for the attempt that is still the running one",
        "requests": "cancel --running and retry --force wait for the worker up to its grace and "
        f"{seconds(limits.BEYOND_GRACE)}; a worker that says nothing for {seconds(limits.SILENT_AFTER)} "
        "has its tree ended by the caller; KILL_ASYNC says that the end is not over yet, and it is "
        "followed through",
        "output": f"kept beside the database in {_output('queue.db')} (beside one of another name in "
        f"{_output('NAME')}), whatever happens to the worker",
        "lock_patience_seconds": limits.LOCK_PATIENCE,
    }


def _output(name: str) -> str:
    """Where an attempt's output lies, beside a database of that name."""
    return paths.Spool(f"/{name}", "default").stream("JOB", "ATTEMPT", "STREAM")[1:]  # type: ignore[arg-type]


def parsing() -> "Json":
    """How a command line is read, and in which order it is refused (SPEC 2.1, 2.3)."""
    return {
        "order_of_refusal": ["syntax", "values", "exclusions", "safety", "database", "NOT_FOUND", "state"],
        "flags": "never abbreviated; --flag VALUE or --flag=VALUE, in any order, before or behind arguments; "
        "a second one of the same flag is refused unless it is repeatable",
        "values": "the next word, whatever it looks like, unless it is a flag of the verb or --",
        "negative_numbers": "a word such as -5 or -.5 is a value, not a flag",
        "double_dash": "ends the flags; behind the first one of add every word belongs to the command",
        "ids": "where an ID is taken key:KEY names the newest job with the key, in --queue where given; "
        "where several are taken A-B names those from A to B; an ID given twice counts once",
        "one_or_many": "where one or several jobs can be named, one plain ID or key:KEY is answered with "
        "the first form of data, anything else with the list form",
        "suggestions": "did_you_mean: the known word within two edits and less than half of it, two "
        "neighbours in the wrong order being one",
        "several": "mutually_exclusive: not both; needs: one of those named; one_of: at least one",
        "data_hash": "sha256 of data as JSON with sorted keys, separators , and :, and ASCII alone",
    }


def totality() -> "Json":
    """What each output mode owes its reader, for every input."""
    return {
        "envelope": {
            "selector": "--json anywhere before --",
            "failure_stdout": "one envelope with ok false and one error",
            "failure_stderr": "one line, spoolctl: CODE: message; SPOOLCTL_STDERR=off silences it",
            "traceback_allowed": False,
        },
        "frames": {
            "selector": "events --follow --json",
            "failure_stdout": "before the first line one envelope; after it a control line of type error",
            "failure_stderr": "one line, spoolctl: CODE: message",
            "traceback_allowed": False,
            "implemented": True,
        },
        "raw": {
            "selector": "output --raw",
            "failure_stdout": "nothing",
            "failure_stderr": "spoolctl: CODE: message, and a hint",
            "traceback_allowed": False,
        },
        "text": {
            "selector": "the default, for people; not part of the contract",
            "failure_stdout": "nothing",
            "failure_stderr": "spoolctl: CODE: message, and a hint",
            "traceback_allowed": False,
        },
    }
