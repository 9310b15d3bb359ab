"""robot-docs: the guide for an agent that has no other source."""

from ..contract.spec import Arg, Args, Result, Verb
from ..contract.types import Choice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "robot-docs",
    "the guide for agents: what to call, and when",
    "In sections, each a list of short paragraphs with the commands they speak of.",
    args=(Arg("DOCUMENT", Choice("guide"), "1", "which document"),),
    examples=(
        ("spoolctl robot-docs guide", "to read"),
        ("spoolctl robot-docs guide --json", "the same by section"),
    ),
    errors=("INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "INTERNAL"),
    db=False,
)


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    section = s.obj(title=s.STR, bullets=s.arr(s.STR))
    return s.obj(text=s.STR, approx_tokens=s.COUNT, sections=s.arr(section))


def run(args: Args, ctx: "Context") -> Result:
    from ..describe import guide, tokens

    sections = guide.sections(ctx.specs)
    page = guide.text(sections)
    answer = {"text": page, "approx_tokens": tokens.estimate(page), "sections": sections}
    return Result(answer, ["spoolctl doctor --json", "spoolctl capabilities --json"])


def text(data: "Row", view: "View") -> str:
    return str(data["text"])
