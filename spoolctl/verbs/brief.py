"""brief: the tool on one page, for a reader who pays by the token."""

from ..contract.spec import Args, Result, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "brief",
    "the tool on one page, for agents",
    "approx_tokens is an estimate: the larger of a quarter of the characters and the number of words and "
    "marks. The page keeps within budget_tokens by it.",
    examples=(("spoolctl brief", "what to know before the first call"),),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"),
    db=False,
)


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    return s.obj(text=s.STR, approx_tokens=s.COUNT, budget_tokens=s.COUNT)


def run(args: Args, ctx: "Context") -> Result:
    from ..describe import brief, tokens

    page = brief.text(ctx.specs)
    answer = {"text": page, "approx_tokens": tokens.estimate(page), "budget_tokens": brief.BUDGET}
    return Result(answer, ["spoolctl doctor --json", "spoolctl robot-docs guide"])


def text(data: "Row", view: "View") -> str:
    return str(data["text"])
