"""The two documents against themselves: every name that one part uses another part explains, and alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from . import items
from .calls import Call
from .contract import Contract, Verb
from .envelope import hash_of

NUMBERS = ("integer", "float", "duration", "timestamp", "bytes")

# By key of an answer: the lists of the document that its enumerated words are from.
ENUMERATED = {
    "state": ("job_states", "attempt_states"),
    "job_state": ("job_states",),
    "attempt_state": ("attempt_states",),
    "event": ("events",),
    "failure_reason": ("failure_reasons",),
    "last_failure_reason": ("failure_reasons",),
}


def findings(contract: Contract, calls: list[Call]) -> list[str]:
    found = [*_codes(contract), *_schemas(contract), *_sections(contract)]
    found += [*_settings(contract), *_numbers(contract)]
    for verb in contract.verbs.values():
        for finding in (*items.findings(contract, verb), *_rules(verb), *_answers(contract, verb)):
            found.append(f"{verb.name}: {finding}")
        derived = {call.category for call in calls if call.verb == verb.name} - {"help", "env", "examples"}
        if derived != set(verb.doc["probe_hints"]["categories"]):
            found.append(
                f"{verb.name}: its probe categories are not those that can be derived: {sorted(derived)}"
            )
    return found


def _codes(contract: Contract) -> Iterator[str]:
    doc = contract.doc
    registry, exits = doc["code_registry"], doc["exit_codes"]
    if set(doc["error_codes"]) != {code for code, row in registry.items() if "errors" in row["appears_in"]}:
        yield "error_codes are not those of the registry"
    for code, row in registry.items():
        if "errors" in row["appears_in"]:
            status = exits.get(str(row["exit_code"]))
            if status is None or row["retryable"] is not bool(status["retryable"]):
                yield f"{code} and its exit code do not agree"
        kind = "errors" if "errors" in row["appears_in"] else "warnings"
        if row["verbs"] != [name for name, verb in contract.verbs.items() if code in verb.doc[kind]]:
            yield f"{code}: its verbs are not those that declare it"
    used = {str(status) for verb in contract.verbs.values() for status in verb.doc["exit_codes"]}
    if set(exits) != used:
        yield f"exit codes of no verb, or of no table: {sorted(set(exits) ^ used)}"


def _answers(contract: Contract, verb: Verb) -> Iterator[str]:
    doc = verb.doc
    for code in (*doc["errors"], *doc["warnings"]):
        if code not in contract.doc["code_registry"]:
            yield f"{code} is not registered"
    told = {0} | {contract.exit_of(code) for code in doc["errors"]}
    if not told <= set(doc["exit_codes"]) <= told | contract.ends_with_ok():
        yield f"exit_codes {doc['exit_codes']} are not those of its errors"
    if doc["destructive"] and not doc["mutates"]:
        yield "destructive, and yet it changes nothing"
    modes = set(doc["output_modes"])
    if not modes <= set(contract.doc["output_modes"]) or {"frames", "raw"} & modes != {"frames", "raw"} & set(
        doc
    ):
        yield "its output modes are not explained"
    if not doc["examples"] or not all(f"{contract.tool} {verb.name}" in line for line, _ in doc["examples"]):
        yield "an example of another verb"
    for name in doc.get("frames", {}).get("schema_refs", ()):
        if name not in contract.schema["streams"]:
            yield f"no schema of the stream {name}"
    if doc["json"]["flag"] not in verb.flags or doc["json"]["schema_ref"] != doc["schema_ref"]:
        yield "its JSON mode is not explained"


def _rules(verb: Verb) -> Iterator[str]:
    """Every rule names flags and arguments that there are, and can be kept."""
    doc = verb.doc
    hints = doc["probe_hints"]["bounded_by"]
    named = (
        [name for pair in doc["mutually_exclusive"] for name in pair] + doc["one_of"] + doc["only_with_key"]
    )
    named += [name for one, others in doc["needs"].items() for name in (one, *others)]
    named += [rule["when"] for rule in hints if rule["when"]] + list(doc.get("raw", {}).get("only_with", ()))
    named += [word for rule in hints for option in rule["add_one_of"] for word in option if word[:2] == "--"]
    for name in set(named) - set(verb.flags) - {arg["name"] for arg in verb.args}:
        yield f"a rule names {name}, which it does not have"
    for name, others in doc["needs"].items():
        if all(verb.excludes(name, {other}) for other in others):
            yield f"{name} excludes what it needs"


def _schemas(contract: Contract) -> Iterator[str]:
    schema = contract.schema
    if list(schema["verbs"]) != list(contract.verbs):
        yield "the schemas are not those of the verbs"
    whole = {"envelope_schema": schema["envelope_schema"], **schema["verbs"], **schema["streams"]}
    for name, one in whole.items():
        try:
            Draft202012Validator.check_schema(one)
        except SchemaError as error:
            yield f"{name} is no JSON Schema: {error.message[:200]}"
        for key, found in _enums(one):
            known = {word for part in ENUMERATED[key] for word in contract.doc[part]}
            if not found <= known | {None}:
                yield f"{name}: {key} may be {sorted(map(str, found - known))}, which the lists do not name"
    for name, verb in contract.verbs.items():
        if hash_of(verb.doc["output_schema"]) != hash_of(schema["verbs"].get(name)):
            yield f"{name}: output_schema is not its schema"
    told = schema["envelope_schema"]["properties"]["errors"]["items"]["properties"]["code"]["enum"]
    if not set(contract.doc["error_codes"]) <= set(told):
        yield "the envelope's codes are not the error codes"


def _enums(schema: Any, key: str = "") -> Iterator[tuple[str, set[Any]]]:
    """(key of an answer, the words it may be), wherever a schema enumerates one of ENUMERATED."""
    if isinstance(schema, list):
        for one in schema:
            yield from _enums(one, key)
    elif isinstance(schema, dict):
        if "enum" in schema and key in ENUMERATED:
            yield key, set(schema["enum"])
        for name, one in schema.get("properties", {}).items():
            yield from _enums(one, name)
        for name in ("anyOf", "allOf", "oneOf", "items"):
            yield from _enums(schema.get(name), key)
        yield from _enums(schema.get("additionalProperties"))


def _sections(contract: Contract) -> Iterator[str]:
    """The document can be asked for by its own parts."""
    for verb in contract.verbs.values():
        told = verb.flags.get("--section")
        if told is not None and told["choices"] != list(contract.doc):
            yield f"{verb.name} --section takes other names than the document has"


def _settings(contract: Contract) -> Iterator[str]:
    """Variables and the config against the flags that they stand in for."""
    doc = contract.doc
    if not set(doc["env_vars"]) <= set(doc["env"]):
        yield "a variable of env_vars is not in env"
    for name, variable in doc["env_vars"].items():
        shadow = variable["shadowed_by"]
        wanted = [verb for verb, one in contract.verbs.items() if shadow in one.flags]
        if shadow and variable["consumed_by"] != wanted:
            yield f"{name} is not read by the verbs that take {shadow}"
        if not set(variable["consumed_by"]) <= set(contract.verbs):
            yield f"{name} is read by no verb there is"
    keys = {key["name"]: key for key in doc["config"]["keys"]}
    for key in keys.values():
        if key["type"] in doc["probe_vocabularies"] and not items.within(key, key["default"]):
            yield f"config {key['name']}: its default is none of its values"
    for verb in contract.verbs.values():
        for flag in verb.flags.values():
            key = keys.get(flag.get("config_key"))
            facts = ("type", "minimum", "maximum", "default")
            if "config_key" in flag and (key is None or any(key[fact] != flag[fact] for fact in facts)):
                yield f"{verb.name} {flag['name']} is not like its key of the config"
    for flag in doc["global_flags"]["flags"]:
        for verb in contract.verbs.values():
            if verb.flags.get(flag["name"], flag) != flag:
                yield f"{verb.name} {flag['name']} is not like the global flag"


def _numbers(contract: Contract) -> Iterator[str]:
    doc = contract.doc
    numeric = [
        f"{verb.name} {flag['name']}"
        for verb in contract.verbs.values()
        for flag in verb.flags.values()
        if flag["type"] in NUMBERS
    ]
    if doc["scheduling"]["finite_numeric_inputs"] != numeric:
        yield "finite_numeric_inputs are not the flags that take numbers"
    bounds: dict[str, list[Any]] = {}
    for verb in contract.verbs.values():
        for flag in verb.flags.values():
            bounds.setdefault(flag["name"], []).append((flag["minimum"], flag["maximum"]))
    for name, limit in doc["limits"].items():
        if limit["unbounded"] is not (limit["maximum"] is None):
            yield f"limits {name}: unbounded or not"
        told = bounds.get(limit["summary"])
        if told and (limit["minimum"], limit["maximum"]) not in told:
            yield f"limits {name}: not the bounds of {limit['summary']}"
