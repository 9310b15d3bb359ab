"""One verb as data: everything a client generator needs to call it and to read its answer."""

from ..contract.spec import Verb
from ..errors import ERRORS
from . import signature, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

PROBE_TIMEOUT = 30  # seconds in which a call that is bounded has answered, on any machine


def verb(spec: Verb, shapes: "Json", names: "list[str]") -> "Json":
    """`shapes` are the verb's own, as Context.shapes gives them; `names` are those of all verbs."""
    args = [values.arg(item) for item in spec.args]
    flags = [values.flag(item, names) for item in spec.flags]
    found: "Json" = {
        "summary": spec.summary,
        "description": spec.description,
        "args": args,
        "positionals": args,
        "flags": flags,
        "mutually_exclusive": [[spec.spelled(a), spec.spelled(b)] for a, b in spec.exclusive],
        "needs": {spec.spelled(a): [spec.spelled(b) for b in others] for a, others in spec.needs.items()},
        "one_of": [spec.spelled(dest) for dest in spec.one_of],
        "only_with_key": [spec.spelled(dest) for dest in spec.only_with_key],
        "output_modes": list(spec.modes),
        "output_schema": shapes["data"],
        "data_schema": signature.of(shapes["data"]),
        "meta_schema": {key.rstrip("_"): shape for key, shape in shapes["meta"].items()},
        "schema_ref": schema_ref(spec.name),
        "json": {"flag": "--json", "mode": "envelope", "schema_ref": schema_ref(spec.name)},
        "text": {"mode": "text", "contract": False},
        "exit_codes": sorted({0, *spec.exits, *(ERRORS[code][0] for code in spec.errors)}),
        "errors": list(spec.errors),
        "warnings": list(spec.warnings),
        "mutates": spec.mutates,
        "destructive": spec.destructive,
        "idempotent": spec.idempotent,
        "stdin": spec.stdin or None,
        "examples": [list(example) for example in spec.examples],
        "probe_hints": _hints(spec, args + flags),
    }
    if spec.safety:
        found["safety"] = spec.safety
        found["confirmation"] = list(spec.confirmation)
    if spec.interrupts:
        found["interrupts_process"] = True
    if spec.flag("from"):
        found["input_line"] = values.line()
    if "frames" in spec.modes:
        found["frames"] = {
            "selector": "--follow --json",
            "schema_refs": {name: schema_ref(name) for name in shapes["streams"]},
            "data_schemas": {name: signature.of(shape) for name, shape in shapes["streams"].items()},
        }
    if "raw" in spec.modes:
        found["raw"] = {
            "selector": "--raw",
            "only_with": {spec.spelled(dest): list(words) for dest, words in spec.raw_with.items()},
            "content": "the exact bytes, and nothing else",
        }
    return found


def schema_ref(name: str) -> str:
    return f"schemas/{name}.json"


def _hints(spec: Verb, items: "list[Json]") -> "Json":
    """What a tester may derive, and how it keeps a call from waiting."""
    categories = ["valid", "unknown", "malformed"]
    if any(item["malformed_expectations"].get("out_of_range") for item in items):
        categories.append("boundary")
    if (
        spec.one_of
        or spec.needs
        or any(flag.required for flag in spec.flags)
        or any(arg.nargs in ("1", "+") for arg in spec.args)
    ):
        categories.append("missing")
    if spec.exclusive or spec.only_with_key:
        categories.append("excluded")
    return {
        "categories": categories,
        "timeout_seconds": PROBE_TIMEOUT,
        "json_failure_verdict": "one envelope on stdout, ok false, one error of errors; its exit_code "
        "is the exit status",
        "bounded_by": [
            {"when": spec.spelled(dest) if dest else None, "add_one_of": [list(words) for words in choices]}
            for dest, choices in spec.bounded_by.items()
        ],
    }
