"""When a worker leaves, and what it means that a lane has settled (SPEC 6)."""

from .. import clock
from ..contract.limits import LOCK_PATIENCE
from ..store import claim, owners, workers
from . import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .shift import Shift


def finished(shift: "Shift") -> bool:
    """Whether there is a reason to leave."""
    options = shift.options
    if shift.pending:
        # Told twice on a disk that stays full, or with a lock that somebody keeps, it leaves what it cannot
        # write down to the reapers.
        since = shift.locked_since
        locked = since is not None and clock.monotonic() - since >= LOCK_PATIENCE  # as long as a call waits
        ended = all(one.stuck for one in shift.running.values())
        return shift.told >= 2 and ended and (shift.disk_failures > 1 or locked)
    if shift.running:
        # What cannot be ended holds neither the exit after a second signal nor a drain; its row stays for
        # the reapers.
        if not all(one.stuck for one in shift.running.values()):
            return False
        if options.drain and not (shift.told or shift.ready or shift.stale) and _settled(shift):
            shift.drained = True
            return True
        return shift.told >= 2
    if shift.stopping or (options.max_jobs is not None and shift.claims >= options.max_jobs):
        return True
    if shift.ready or shift.stale:
        shift.idle_since = clock.monotonic()
        return False
    if shift.reaper.busy:
        return False
    if options.once:
        return True
    if options.drain and _settled(shift):
        shift.drained = True
        return True
    return options.idle_timeout is not None and clock.monotonic() - shift.idle_since >= options.idle_timeout


def _settled(shift: "Shift") -> bool:
    """Whether nothing of the lane runs, is due, or waits for another try; `unsettled` names what does
    not hold it: leases, jobs of owners that cannot be judged, stuck trees, and those it is part of."""
    db, options = shift.db, shift.options
    with db.read():
        due, _ = claim.look(db, options.queue, options.kind, clock.now())
        if due or owners.in_backoff(db, options.queue, options.kind):
            return False
        rows = owners.running_in_lane(db, options.queue, options.kind)
        found = {owner: workers.get(db, owner) for owner in {row["owner"] for row in rows}}
    shift.unsettled = []
    for row in rows:
        owner = found[row["owner"]]
        leased = row["owner"] == 0
        unknown = owner is not None and identity.liveness(db.spool, owner) == identity.UNKNOWN
        # A dead owner's job that this worker itself belongs to is for others to bring back.
        ours = (row["id"], row["attempt_no"]) in shift.reaper.left
        if not (leased or unknown or ours or row["ending_since"] is not None):
            return False
        shift.unsettled.append(row["id"])
    return True
