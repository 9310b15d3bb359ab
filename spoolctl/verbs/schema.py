"""schema: the JSON Schema of every answer and every stream, made from the shapes the tests validate with."""

from ..contract.spec import Args, Result, Verb
from . import _named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "schema",
    "show the JSON Schema of the answers",
    "JSON Schema 2020-12: of the envelope, of each verb's data, and of the lines of the streams. Without "
    "--json the same, indented.",
    flags=(_named.VERB,),
    examples=(
        ("spoolctl schema --json", "everything"),
        ("spoolctl schema --json --verb wait", "the data of one verb"),
    ),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"),
    db=False,
)


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    schema = {"type": "object"}
    return s.obj(dialect=s.STR, envelope_schema=schema, verbs=s.table(schema), streams=s.table(schema))


def run(args: Args, ctx: "Context") -> Result:
    from ..describe import schemas

    return Result(schemas.document(ctx.specs, ctx.shapes, _named.chosen(args, ctx)))


def text(data: "Row", view: "View") -> str:
    import json

    return json.dumps(data, indent=2) + "\n"
