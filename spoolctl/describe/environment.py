"""The environment variables and the config file as data (SPEC 2.5, 5)."""

from .. import config, paths
from ..contract import env, types
from ..contract.spec import Verb
from . import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

READ = {
    env.DB: "the database, where --db is not given",
    env.STDERR: "in JSON mode an error is told on stdout alone",
    env.DEBUG: "the traceback of a fault of the tool goes to stderr",
    env.NO_COLOR: "no colours on a terminal",
    env.TERM: "no colours on a terminal",
    env.PWD: "the current directory with its symbolic links, where it names the same directory",
    env.TZ: "the zone in which a timestamp without an offset is read",
    env.TOKEN: "tells a call inside a job which attempt it belongs to; it never ends its own tree",
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
    refused = values.verdict("INVALID_INPUT")
    path = types.PATH.describe()
    # type, the value that counts or its grammar, the verbs that read it
    rows: "tuple[tuple[str, str, str, list[str]], ...]" = (
        (env.STDERR, "word", env.STDERR_OFF, list(specs)),
        (env.DEBUG, "word", env.DEBUG_ON, list(specs)),
        (env.NO_COLOR, "text", "any text that is not empty", list(specs)),
        (env.TERM, "word", env.TERM_PLAIN, list(specs)),
        (env.PWD, "path", "an absolute path", _placed(specs)),
        (env.TZ, "zone", "as the system reads it", _taking(specs, types.Timestamp)),
        (env.TOKEN, "token", "as the worker set it", ["work", *_interrupting(specs)]),
    )
    found = {env.DB: _variable(env.DB, path, _placed(specs), "--db")}
    found[env.DB]["malformed_expectations"] = {"empty": refused, "out_of_range": refused}
    found[env.DB]["accepted_malformed_by"] = [name for name, spec in specs.items() if spec.any_place]
    for name, kind, grammar, verbs in rows:
        facts = {"type": kind, "minimum": None, "maximum": None, "unbounded": True, "grammar": grammar}
        found[name] = _variable(name, facts, verbs)
    return found


def _placed(specs: "dict[str, Verb]") -> "list[str]":
    """The verbs that look for the database."""
    return [verb for verb, spec in specs.items() if spec.db]


def _taking(specs: "dict[str, Verb]", kind: "type[types.Type]") -> "list[str]":
    return [verb for verb, spec in specs.items() if any(isinstance(flag.type, kind) for flag in spec.flags)]


def _interrupting(specs: "dict[str, Verb]") -> "list[str]":
    return [verb for verb, spec in specs.items() if spec.interrupts]


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
    return {
        "supported": True,
        "path": f"{paths.FOLDER}/{config.NAME}",
        "format": "json",
        "schema_version": config.VERSION,
        "precedence": list(config.PRECEDENCE),
        "keys": [_key(key) for key in config.KEYS],
    }


def _key(key: str) -> "Json":
    name = key.removeprefix("defaults.")
    facts: "Json" = {"minimum": None, "maximum": None, "unbounded": False, "choices": None}
    default: object = None
    if name in config.TYPES:
        facts, default = config.TYPES[name].describe(), config.DEFAULTS[name]
        forms = values.json_types(config.TYPES[name])
    elif key == "db_path":
        facts, forms = types.PATH.describe(), ["string"]
    elif key == "version":
        facts.update(type="integer", grammar=f"the number {config.VERSION}")
        default, forms = config.VERSION, ["number"]
    else:
        facts.update(type="names", grammar="names of variables")
        default, forms = list(env.CAPTURED), ["array of strings"]
    return {"name": key, **facts, "json_types": forms, "default": default}
