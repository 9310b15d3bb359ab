"""`--verb V`: a verb that there is, for the verbs that tell about verbs."""

from ..contract.spec import Args, Flag
from ..contract.types import VerbName
from ..errors import invalid, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context

VERB = Flag("--verb", VerbName(), help="only this verb")


def chosen(args: Args, ctx: "Context") -> "str | None":
    """The verb that --verb names, None without it. Raises INVALID_INPUT."""
    name: "str | None" = args.verb
    known = list(ctx.specs)
    if name is None or name in known:
        return name
    raise invalid(
        f"--verb: there is no verb {name[:200]!r}",
        "spoolctl --help",
        nearest(name, known),
        flag="--verb",
        value=name[:200],
        choices=known,
    )
