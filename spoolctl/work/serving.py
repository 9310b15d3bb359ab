"""Whether a live worker serves a lane, and what to say when none does."""

from .. import config
from ..contract.types import LANE, BadValue
from ..store import workers
from ..store.db import Db
from . import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def serves(db: Db, lane: str, kind: str = "command") -> bool:
    return any(identity.liveness(db.spool, w) == identity.ALIVE for w in workers.in_lane(db, lane, kind))


def work_line(ctx: "Context", lane: str, *words: str) -> str:
    """The line that starts a worker for a lane; the lane goes without saying where every default names it.
    A damaged row's lane may be no name that a line could give."""
    try:
        LANE.parse(lane)
    except BadValue:
        return "spoolctl doctor"
    plain = lane == config.DEFAULTS["queue"] == ctx.config().defaults["queue"]
    return " ".join(["spoolctl work", *words] + ([] if plain else ["--queue", lane]))


def no_worker(ctx: "Context", lane: str) -> "tuple[str, str]":
    """The NO_WORKER warning: its message is the line that starts a worker for the lane (SPEC 3)."""
    return "NO_WORKER", ctx.with_db(work_line(ctx, lane))
