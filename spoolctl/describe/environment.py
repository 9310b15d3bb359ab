"""The environment variables and the config file as data (SPEC 2.5, 5)."""

from .. import config, paths
from ..contract import env, types
from ..contract.spec import Verb
from .values import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

READ = {
    env.DB: "the database, where --db is not given",
    env.STDERR: "off: in JSON mode an error is told on stdout alone",
    env.DEBUG: "1: the traceback of a fault of the tool goes to stderr",
    "NO_COLOR": "not empty: no colours on a terminal",
    "TERM": "dumb: no colours on a terminal",
}
GIVEN = {
    env.JOB_ID: "given to a job: its id",
    env.ATTEMPT: "given to a job: the number of this attempt, from 1",
    env.QUEUE: "given to a job: its lane",
    env.JOB_DB: "given to a job: the absolute path of the database, for adding follow-up work",
    env.TOKEN: "given to a job: unique to the attempt; it marks every process of it, do not change it",
}


def env_texts() -> "Json":
    """{name: what it is for}: what spoolctl reads, and what it gives to a job."""
    return {**READ, **GIVEN}


def env_vars(specs: "dict[str, Verb]") -> "Json":
    """What spoolctl reads, as exactly as a flag."""
    everywhere, refused = list(specs), verdict("INVALID_INPUT")
    colourful = [name for name, spec in specs.items() if "text" in spec.modes]
    return {
        env.DB: {
            **_variable(env.DB, types.PATH.describe(), [n for n, spec in specs.items() if spec.db], "--db"),
            "malformed_expectations": {"empty": refused, "out_of_range": refused},
            "accepted_malformed_by": [name for name, spec in specs.items() if spec.any_place],
        },
        env.STDERR: _variable(env.STDERR, _word("off"), everywhere),
        env.DEBUG: _variable(env.DEBUG, _word("1"), everywhere),
        "NO_COLOR": _variable("NO_COLOR", _word("any text"), colourful),
        "TERM": _variable("TERM", _word("dumb"), colourful),
    }  # fmt: skip


def _word(grammar: str) -> "Json":
    """A variable of which one value counts, and any other is as if it were not set."""
    return {"type": "word", "minimum": None, "maximum": None, "unbounded": True, "grammar": grammar}


def _variable(name: str, facts: "Json", verbs: "list[str]", flag: "str | None" = None) -> "Json":
    """`verbs` are those that read it."""
    return {
        "description": READ[name],
        "type": facts["type"],
        "required": False,
        "default": None,
        "minimum": facts["minimum"],
        "maximum": facts["maximum"],
        "unbounded": facts["unbounded"],
        "grammar": facts["grammar"],
        "shadowed_by": flag,
        "consumed_by": verbs,
        "malformed_expectations": {},
    }


def config_file() -> "Json":
    kinds: "dict[str, Json]" = {"db_path": types.PATH.describe()}
    kinds.update((f"defaults.{key}", kind.describe()) for key, kind in config.TYPES.items())
    defaults: "Json" = {f"defaults.{key}": value for key, value in config.DEFAULTS.items()}
    defaults["capture_env"] = list(env.CAPTURED)
    return {
        "supported": True,
        "path": f"{paths.FOLDER}/{config.NAME}",
        "format": "json",
        "schema_version": config.VERSION,
        "precedence": list(config.PRECEDENCE),
        "keys": [
            {
                "name": key,
                "type": _kind(key, kinds),
                "minimum": kinds.get(key, {}).get("minimum"),
                "maximum": kinds.get(key, {}).get("maximum"),
                "default": config.VERSION if key == "version" else defaults.get(key),
            }
            for key in config.KEYS
        ],
    }


def _kind(key: str, kinds: "dict[str, Json]") -> str:
    if key in kinds:
        return str(kinds[key]["type"])
    return {"version": f"the number {config.VERSION}", "capture_env": "list of variable names"}[key]
