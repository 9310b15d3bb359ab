"""Keeping order: registration, dead owners, the heartbeat, the WAL."""

from .. import clock
from ..contract.limits import OWNERS_EVERY
from ..store import workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .shift import Shift

ROWS_EVERY = 600.0  # looks for rows of dead workers that ran nothing


def begin(shift: "Shift") -> None:
    """First looks: dead owners before anything else; a plain worker registers at once."""
    if not shift.options.once and not shift.options.drain:
        shift.me.prepare()
        with shift.db.write(full=False) as conn:
            shift.me.join(conn, clock.now())
        shift.me.joined()
    shift.reaper.look(shift.me.instance)


def look_after(shift: "Shift") -> None:
    """Once a second: is the queue still there, dead owners, the heartbeat, the WAL."""
    now = clock.monotonic()
    if now < shift.house_at:
        return
    shift.house_at = now + OWNERS_EVERY
    if shift.db.exists:
        shift.db.check_in_place()
    shift.reaper.look(shift.me.instance)
    if now >= shift.rows_at:
        shift.rows_at = now + ROWS_EVERY
        shift.reaper.find_dead_rows(shift.me.instance)
    shift.me.beat()
    if shift.starter is not None:
        shift.starter.adoption.tidy()  # what was kept may have ended, and waits to be reaped
    if shift.reaper.bury() and not shift.pending and not shift.stopping:
        _bury(shift)
    if shift.checkpointer.due():
        shift.checkpointer.run()


def _bury(shift: "Shift") -> None:
    with shift.db.write(full=False) as conn:
        buried = [one for one in shift.reaper.bury() if workers.unregister(conn, one)]
    shift.reaper.buried(buried)
