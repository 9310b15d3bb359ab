"""capabilities: the whole contract as data, made from the specs."""

from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import Choice
from . import _named
from ._contract_shape import SHAPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "capabilities",
    "tell the whole contract as data",
    "Verbs with their flags and answers, codes, limits, states, variables, rules: what a client or a tester "
    "needs, made from what the tool itself runs on. Without --json the same, indented.",
    flags=(_named.VERB, Flag("--section", Choice(*SHAPES), help="only this part")),
    exclusive=(("verb", "section"),),
    examples=(
        ("spoolctl capabilities --json", "everything"),
        (
            "spoolctl capabilities --json --verb add",
            "one verb: its flags, limits, errors, answer",
        ),
        ("spoolctl capabilities --json --section code_registry", "every code, and what it means"),
    ),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"),
    db=False,
)


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    shape = s.obj(**{f"{name}_": part for name, part in SHAPES.items()})
    # All of it; with --verb or --section one key.
    shape["anyOf"] = [{"required": list(SHAPES)}, {"minProperties": 1, "maxProperties": 1}]
    return shape


def run(args: Args, ctx: "Context") -> Result:
    from ..describe import capabilities

    verb = _named.chosen(args, ctx)
    if verb is not None:
        return Result({"verbs": {verb: capabilities.of_verb(verb, ctx.specs, ctx.shapes)}})
    document = capabilities.document(ctx.specs, ctx.shapes)
    if args.section is not None:
        document = {args.section: document[args.section]}
    return Result(document, ["spoolctl schema --json", "spoolctl robot-docs guide --json"])


def text(data: "Row", view: "View") -> str:
    import json

    return json.dumps(data, indent=2) + "\n"
