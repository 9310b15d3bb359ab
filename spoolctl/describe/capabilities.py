"""The whole contract as one JSON document (SPEC 3, capabilities)."""

from .. import CONTRACT_VERSION, __version__
from ..contract import states
from ..contract.spec import BEFORE_VERB, Verb
from . import codes, environment, limits, rules, schemas, signature, values, verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

POLICY = (
    "The contract version changes only when a reader of the old one would break. Keys, verbs and codes "
    "may be added without a change of it: ignore what you do not know. A schema is strict and holds for "
    "its tool_version."
)
MODES = ("envelope", "frames", "raw", "text")

# What the tool does, in words to look for.
FEATURES = (
    "durable_add", "bulk_add", "idempotency_keys", "delayed_jobs", "priorities", "lanes", "tags",
    "slots", "timeouts", "output_limits", "output_capture", "retries_with_backoff", "process_tree_end",
    "crash_recovery", "requests_followed_through", "events_ledger", "events_wait", "events_follow",
    "wait_for_jobs", "feedback_verdict", "safety_gates", "prune", "doctor", "schemas", "completion",
)  # fmt: skip


def document(specs: "dict[str, Verb]", shapes: "Json") -> "Json":
    """Everything; the names and their order are those of the verb's shape."""
    return {
        "tool_name": "spoolctl",
        "tool_version": __version__,
        "contract_version": CONTRACT_VERSION,
        "contract_policy": POLICY,
        "features": list(FEATURES),
        "output_modes": [mode for mode in MODES if any(mode in spec.modes for spec in specs.values())],
        "schemas_uri": "spoolctl schema --json",
        "robot_docs_uri": "spoolctl robot-docs guide",
        "global_flags": _global_flags(),
        "exit_codes": codes.exits(),
        "error_codes": list(schemas.errors_of(specs)),
        "job_states": list(states.JOB_STATES),
        "job_transitions": {state: list(after) for state, after in states.TRANSITIONS.items()},
        "attempt_states": list(states.ATTEMPT_STATES),
        "events": list(states.EVENTS),
        "failure_reasons": list(states.REASONS),
        "code_registry": codes.registry(specs),
        "limits": limits.table(),
        "env": environment.env_texts(),
        "env_vars": environment.env_vars(specs),
        "config": environment.config_file(),
        "probe_vocabularies": values.vocabularies(specs),
        "scheduling": rules.scheduling(specs),
        "execution": rules.execution(specs),
        "parsing": rules.parsing(),
        "totality": rules.totality(),
        "verbs": {name: verbs.verb(spec, shapes[name], list(specs)) for name, spec in specs.items()},
    }


def of_verb(name: str, specs: "dict[str, Verb]", shapes: "Json") -> "Json":
    return verbs.verb(specs[name], shapes[name], list(specs))


def _global_flags() -> "Json":
    return {
        "flags": [values.flag(item) for item in BEFORE_VERB],
        "answers": {f"--{name}": signature.of(shape) for name, shape in schemas.SPECIAL.items()},
        "db_scope": "--db belongs to every verb that opens or resolves the database, before the verb "
        "or behind it; anywhere else it is UNKNOWN_FLAG",
    }
