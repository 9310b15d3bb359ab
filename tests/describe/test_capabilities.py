"""capabilities and schema: the names other tools read, and that nothing in them is said twice or left out."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator
from support import refused, shape_of_answers, validator

from spoolctl import errors, registry
from spoolctl.describe import capabilities, schemas, signature

# The names of SPEC 3; the document may have more.
TOP = (
    "tool_name tool_version contract_version contract_policy features output_modes schemas_uri robot_docs_uri"
    " global_flags exit_codes error_codes job_states attempt_states events failure_reasons code_registry"
    " limits env env_vars config probe_vocabularies scheduling execution totality verbs"
).split()
VERB = (
    "summary description args positionals flags mutually_exclusive output_modes output_schema data_schema"
    " schema_ref json text exit_codes errors mutates destructive idempotent stdin examples probe_hints"
).split()
VALUE = (
    "name type required default minimum maximum unbounded choices repeatable malformed_expectations".split()
)
WITHIN = {
    "global_flags": "flags db_scope",
    "config": "supported path format schema_version precedence keys",
    "scheduling": "duration_grammar at_timestamp finite_numeric_inputs priority queue slots scheduled drain",
    "execution": "cwd env_overrides retry_model tree recovery",
    "totality": "envelope frames raw text",
}
EACH = {
    "exit_codes": "meaning retryable",
    "code_registry": "appears_in summary retryable",
    "limits": "type minimum maximum unbounded",
    "env_vars": "description type required default minimum maximum unbounded shadowed_by consumed_by"
    " malformed_expectations",
    "probe_vocabularies": "valid invalid",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    from support import run

    return run("capabilities", "--json", cwd=tmp_path_factory.mktemp("told"), check=0).data


def test_the_names_that_tools_read_are_there(told):
    assert set(TOP) <= set(told)
    for name, verb in told["verbs"].items():
        assert set(VERB) <= set(verb), name
        assert verb["args"] == verb["positionals"]
        for flag in verb["flags"]:
            assert set(VALUE) | {"flag", "aliases", "value_required"} <= set(flag), (name, flag)
        for arg in verb["args"]:
            assert set(VALUE) | {"nargs"} <= set(arg), (name, arg)
    for section, names in WITHIN.items():
        assert set(names.split()) <= set(told[section]), section
    for section, names in EACH.items():
        for entry in told[section].values():
            assert set(names.split()) <= set(entry), (section, entry)


def test_one_verb_or_one_section_is_a_part_of_the_whole(spool, told):
    for verb in registry.VERBS:
        assert spool.run("capabilities", "--json", "--verb", verb).data == {
            "verbs": {verb: told["verbs"][verb]}
        }
    for section in told:
        assert spool.run("capabilities", "--json", "--section", section).data == {section: told[section]}
    assert spool.files() == []


@pytest.mark.parametrize("teller", ["capabilities", "schema"])
def test_a_verb_that_is_not_there_is_named_with_the_nearest(spool, teller):
    error = refused(spool.run(teller, "--json", "--verb", "stauts"), flag="--verb", value="stauts")
    assert error["did_you_mean"] == "status"
    assert error["detail"]["choices"] == list(registry.VERBS)
    refused(spool.run(teller, "--json", "--verb", "x" * 10_000))


def test_the_text_form_is_the_same_document(spool, told):
    import json

    assert spool.run("capabilities").text == json.dumps(told, indent=2) + "\n"
    schema = spool.run("schema", "--json").data
    assert spool.run("schema").text == json.dumps(schema, indent=2) + "\n"


def test_every_code_is_used_and_explained(told):
    specs = registry.specs().values()
    used = {code for spec in specs for code in (*spec.errors, *spec.warnings)} | {"UNKNOWN_COMMAND"}
    assert set(told["code_registry"]) == used
    assert set(errors.WARNINGS) <= used, "a warning that no verb declares"
    for code, facts in told["code_registry"].items():
        if code in errors.ERRORS:
            assert facts["exit_code"] == errors.ERRORS[code][0]
        assert facts["example"].startswith("spoolctl ") if "example" in facts else code == "INTERNAL"
    assert set(told["error_codes"]) == {code for code in used if code in errors.ERRORS}


def test_the_schemas_are_those_the_tests_validate_with(spool):
    schema = spool.run("schema", "--json").data
    assert set(schema) == {"dialect", "envelope_schema", "verbs", "streams"}
    assert set(schema["verbs"]) == set(registry.VERBS)
    for verb, shape in schema["verbs"].items():
        Draft202012Validator.check_schema(shape)
        assert validator(verb).schema["then"]["properties"]["data"] == shape
    assert set(schema["streams"]) == {"events_follow", "events_follow_data"}
    one = spool.run("schema", "--json", "--verb", "wait").data
    assert one["verbs"] == {"wait": schema["verbs"]["wait"]}
    assert one["streams"] == {}


# Objects whose keys are not named, and why.
OPEN = {
    ("capabilities", "output_schema"): "a JSON Schema",
    ("capabilities", "meta_schema"): "JSON Schemas",
    ("schema", "envelope_schema"): "a JSON Schema",
    ("schema", "verbs"): "JSON Schemas",
    ("schema", "streams"): "JSON Schemas",
}


def loose(shape, name=""):
    """Names of the objects in a schema of which neither the keys nor the shape of what they hold is given."""
    if isinstance(shape, list):
        for one in shape:
            yield from loose(one, name)
    elif isinstance(shape, dict):
        more = shape.get("additionalProperties")
        if shape.get("type") == "object" and more is not False and not isinstance(more, dict):
            yield name
        for key, one in shape.get("properties", {}).items():
            yield from loose(one, key)
        for part in ("anyOf", "items", "additionalProperties", "then", "else"):
            yield from loose(shape.get(part), name)


def test_every_object_of_every_answer_is_strict():
    shapes = shape_of_answers()
    for verb in registry.VERBS:
        whole = schemas.answer(registry.load(verb).SPEC, shapes)
        found = set(loose([whole, *shapes[verb]["streams"].values()]))
        # What `detail` holds depends on the code.
        assert found == {"detail"} | {name for owner, name in OPEN if owner == verb}, verb
    assert list(loose(list(schemas.details(shapes).values()))) == []


def test_a_schema_reads_as_one_line():
    from spoolctl.contract import shapes as s

    shape = s.obj(
        id=s.ID, state_=s.enum("a", "b"), at=s.nullable(s.TIME), tags=s.TAGS,
        rows=s.arr(s.obj(ok={"const": True})),
        none={"type": "array", "maxItems": 0}, any=s.ANY,
    )  # fmt: skip
    assert signature.of(shape) == (
        "{id: integer, state?: a|b, at: number | null, tags: {*: string}, rows: [{ok: true}], "
        "none: [], any: any}"
    )


def test_the_document_depends_on_nothing_but_the_tool(spool):
    first = spool.run("capabilities", "--json").meta["data_hash"]
    (spool.path / "elsewhere").mkdir()
    again = spool.run(
        "capabilities",
        "--json",
        cwd=spool.path / "elsewhere",
        env={"SPOOLCTL_DB": "x.db", "TZ": "Asia/Tokyo"},
    )
    assert again.meta["data_hash"] == first
    assert spool.files() == ["elsewhere"]


# --- what is said in words --------------------------------------------------------------------------------


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)


def test_every_flag_that_a_text_names_is_there(told):
    """A flag behind the name of a verb is one of that verb's, any other one of some verb's."""
    flags = {name: {flag["name"] for flag in verb["flags"]} for name, verb in told["verbs"].items()}
    every = set().union(*flags.values(), ["--version"])
    examples = {facts["example"] for facts in told["code_registry"].values() if "example" in facts}
    prose = [text for text in texts(told) if text not in examples]
    seen = 0
    for text in prose:
        for verb, behind in re.findall(r"\b([a-z][a-z-]*)((?: --[a-z][a-z-]*)+)", text):
            for flag in behind.split():
                assert flag in flags.get(verb, every | {"--flag"}), (verb, flag, text)
                seen += 1
    assert seen > 50


def test_the_commands_the_document_points_to_are_there(spool, told):
    for key in ("schemas_uri", "robot_docs_uri"):
        assert spool.run(*told[key].split()[1:]).exit == 0
    modes = {mode for verb in told["verbs"].values() for mode in verb["output_modes"]}
    assert set(told["output_modes"]) == modes == set(capabilities.MODES)


def test_every_variable_that_is_read_is_told(told):
    """What the code asks the environment for by a name of contract/env.py."""
    from pathlib import Path

    from spoolctl.contract import env

    asked = re.compile(r"environ(?:\.get\(|\[)(?:env\.)?([A-Z_]+)")
    package = Path(registry.__file__).parent
    read = {name for path in package.rglob("*.py") for name in asked.findall(path.read_text("utf-8"))}
    assert {"DB", "STDERR", "DEBUG", "TOKEN"} <= read
    assert {getattr(env, name) for name in read} <= set(told["env_vars"])
    assert set(told["env_vars"]) | set(env.RESERVED) == set(told["env"])


def test_a_config_file_may_hold_what_its_keys_say(spool, told):
    import json

    path = spool.path / "config.json"

    def valid(name, value):
        part, _, key = name.rpartition(".")
        path.write_text(json.dumps({part: {key: value}} if part else {key: value}))
        return spool.run("config-validate", "--json", "config.json").exit == 0

    for key in told["config"]["keys"]:
        name, low, high = key["name"], key["minimum"], key["maximum"]
        null = key.get("accepts_none", False)
        assert valid(name, None) is null is ("null" in key["json_types"]), key
        assert null is (valid(name, "none") and key["type"] in ("integer", "duration")), key
        if key["default"] is not None:
            assert valid(name, key["default"]), key
        assert not valid(name, {}), key
        if key.get("bounds") == "length":
            assert valid(name, "x" * low) and valid(name, "x" * high) and not valid(name, "x" * (high + 1)), (
                key
            )
        elif low is not None:
            assert valid(name, low) is not key.get("exclusive_minimum", False), key
            assert valid(name, high) and not valid(name, low - 1) and not valid(name, high + 1), key
            assert valid(name, "1") is ("string" in key["json_types"]), key
