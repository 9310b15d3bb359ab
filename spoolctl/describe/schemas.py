"""JSON Schema 2020-12 of whole answers: strict, down to the facts of each error code (SPEC 2.1)."""

from .. import CONTRACT_VERSION
from ..contract import shapes as s
from ..errors import ERRORS, WARNINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..contract.spec import Verb

    Schema = dict[str, Any]
    Shapes = dict[str, dict[str, Any]]  # by verb, as Context.shapes gives them

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SCALAR = s.any_of(s.STR, s.NUM, {"type": "null"})
_INPUT = s.obj(
    flag_=s.STR, value_=_SCALAR, minimum_=_SCALAR, maximum_=_SCALAR, choices_=s.arr(s.STR), line_=s.ID
)
_STATE = s.obj(job_id=s.ID, state=s.JOB_STATE, why_=s.enum("unverifiable_owner", "not_started"))

_NONE = {"type": "array", "maxItems": 0}

# The data of the answers to flags that stand for a verb; those of a verb's --help are the same.
SPECIAL = {"help": s.obj(text=s.STR), "version": s.obj(version=s.STR)}


def details(shapes: "Shapes") -> "Schema":
    """What `detail` holds, by code; nothing for the codes that are not named (SPEC 2.1)."""
    return {
        "INVALID_INPUT": _INPUT,
        "NOT_FOUND": s.obj(missing=s.arr(s.any_of(s.ID, s.STR)), attempt_no_=s.ID),
        "TIMEOUT": s.obj(settled=shapes["wait"]["data"]["properties"]["jobs"], pending=s.arr(s.ID)),
        "CONFLICT": s.any_of(_STATE, s.obj(skipped=s.SKIPPED), s.obj()),
        "IDEMPOTENCY_CONFLICT": s.obj(job_id=s.nullable(s.ID), fields=s.arr(s.STR), line_=s.ID),
    }


def error(codes: "tuple[str, ...]", shapes: "Shapes") -> "Schema":
    """One error with one of these codes, from which its exit status and its facts follow."""
    detail = details(shapes)
    shape = s.obj(
        code=s.enum(*codes),
        message={"type": "string", "minLength": 1},
        remediation={"type": "string", "minLength": 1},
        exit_code=s.INT,
        detail={"type": "object"},
        did_you_mean_=s.nullable(s.STR),
    )
    shape["allOf"] = [
        {
            "if": {"properties": {"code": {"const": code}}},
            "then": {
                "properties": {"exit_code": {"const": ERRORS[code][0]}, "detail": detail.get(code, s.obj())}
            },
        }
        for code in codes
    ]
    return shape


def _envelope(
    data: "Schema",
    more_meta: "Schema",
    codes: "tuple[str, ...]",
    warnings: "tuple[str, ...]",
    shapes: "Shapes",
) -> "Schema":
    meta = s.obj(
        request_id={"type": "string", "pattern": "^req_[0-9a-f]{12}$"},
        ts_iso={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        elapsed_ms=s.COUNT,
        contract_version={"const": CONTRACT_VERSION},
        data_hash={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        **{key.rstrip("_") + "_": value for key, value in more_meta.items()},
    )
    shape = s.obj(
        ok=s.BOOL,
        tool_version=s.STR,
        data={},
        meta=meta,
        warnings=s.arr(s.obj(code=s.enum(*warnings), message=s.STR)) if warnings else _NONE,
        commands={"type": "array", "items": s.STR, "maxItems": 3},
        errors={"type": "array", "items": error(codes, shapes), "maxItems": 1},
    )
    needed = [key for key in more_meta if not key.endswith("_")]
    shape["if"] = {"properties": {"ok": {"const": True}}}
    shape["then"] = {"properties": {"data": data, "errors": {"maxItems": 0}, "meta": {"required": needed}}}
    shape["else"] = {"properties": {"data": {"type": "null"}, "errors": {"minItems": 1}}}
    return shape


def errors_of(specs: "dict[str, Verb]") -> "tuple[str, ...]":
    """The error codes that some verb, or the tool itself, may answer with."""
    used = {code for spec in specs.values() for code in spec.errors} | {"UNKNOWN_COMMAND"}
    return tuple(code for code in ERRORS if code in used)


def warnings_of(specs: "dict[str, Verb]") -> "tuple[str, ...]":
    used = {code for spec in specs.values() for code in spec.warnings}
    return tuple(code for code in WARNINGS if code in used)


def envelope(specs: "dict[str, Verb]", shapes: "Shapes") -> "Schema":
    """The schema of every answer, whatever the verb; its `data` has the schema of the verb."""
    together: "dict[str, list[Schema]]" = {}
    for verb in shapes.values():
        for key, shape in verb["meta"].items():
            together.setdefault(key.rstrip("_") + "_", []).append(shape)
    more = {key: s.any_of(*found) if len(found) > 1 else found[0] for key, found in together.items()}
    return {
        "$schema": DIALECT,
        "title": "an answer of spoolctl",
        **_envelope({"type": "object"}, more, errors_of(specs), warnings_of(specs), shapes),
    }


def answer(spec: "Verb", shapes: "Shapes") -> "Schema":
    """The schema of a verb's whole answer in JSON mode; the answer to its --help has that of `special`."""
    found = shapes[spec.name]
    whole = _envelope(found["data"], found["meta"], spec.errors, spec.warnings, shapes)
    return {"$schema": DIALECT, "title": f"the answer of spoolctl {spec.name}", **whole}


def special(name: str, specs: "dict[str, Verb]", shapes: "Shapes") -> "Schema":
    """The schema of the answer to --help or --version."""
    title = f"the answer to spoolctl --{name}"
    return {
        "$schema": DIALECT,
        "title": title,
        **_envelope(SPECIAL[name], {}, errors_of(specs), warnings_of(specs), shapes),
    }


def streams(shapes: "Shapes") -> "Schema":
    """The schema of one line of each stream, by the stream's name."""
    return {name: shape for verb in shapes.values() for name, shape in verb["streams"].items()}


def document(specs: "dict[str, Verb]", shapes: "Shapes", verb: "str | None" = None) -> "Schema":
    """The data of the verb `schema`; with `verb` only that one's."""
    chosen = shapes if verb is None else {verb: shapes[verb]}
    return {
        "dialect": DIALECT,
        "envelope_schema": envelope(specs, shapes),
        "verbs": {name: found["data"] for name, found in chosen.items()},
        "streams": streams(chosen),
    }
