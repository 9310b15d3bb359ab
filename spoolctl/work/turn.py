"""The one transaction of a worker's turn: results of ended attempts and the next claims; then the start
of what was claimed, and the record of its leaders while they run."""

import errno

from .. import clock, hooks
from ..store import claim, settle, workers
from . import care, proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from .shift import Shift

REQUESTS_EVERY = 0.2  # seconds at most between two looks for requests while commands run and nobody tells
CHECK_EVERY = 8  # commits between two looks at the size of the WAL


def look(shift: "Shift") -> None:
    """See whether something can be claimed; only when the database changed or a time came."""
    shift.looked()
    version = shift.db.data_version()
    shift.news = False
    if version != shift.version:
        shift.version, shift.stale = version, True
    now = clock.now()
    shift.look_at = clock.monotonic() + REQUESTS_EVERY
    if not shift.stale and not (shift.next_due is not None and now >= shift.next_due):
        return
    shift.stale = False
    options = shift.options
    shift.ready, shift.next_due = claim.look(shift.db, options.queue, options.kind, now)
    if shift.ready and options.slots is not None:
        shift.ready = claim.running_in_lane(shift.db, options.queue) < options.slots
        shift.next_due = None
    care.heed(shift)


def record_and_claim(shift: "Shift") -> None:
    """Results of ended attempts, leaders that are still to be written down, and the next claims, in one
    transaction."""
    if shift.paused:
        return
    # A worker that has results in every turn would never see what is asked of its other attempts.
    if not shift.pending or clock.monotonic() >= shift.look_at:
        look(shift)
    wanted = shift.wanted()
    if not shift.pending and not (wanted > 0 and shift.ready):
        return
    now, began = clock.now(), proc.moment()
    states: "list[str | None]" = []
    taken: "list[Row]" = []
    buried: "list[int]" = []
    lost: "list[Row]" = []
    options = shift.options
    if wanted > 0 and not equipped(shift):
        wanted = 0
        if not shift.pending:
            return
    leaders = [one.leader() for one in shift.unrecorded]
    with shift.db.write(full=shift.pending, any_schema=shift.retired is not None) as conn:
        for outcome, _ in shift.results:
            states.append(settle.settle(conn, outcome, now))
        for one in shift.reaped:
            settle.settle(conn, one.outcome(), now)
        if shift.reaped or shift.reaper.dead:
            buried = [one for one in shift.reaper.bury(shift.reaped) if workers.unregister(conn, one)]
        lost = claim.record_children(conn, leaders)
        if wanted > 0:
            shift.me.join(conn, now)
            taken = claim.claim(
                conn, shift.db, options.queue, options.kind, wanted, options.slots, shift.me.row, now, began
            )
    hooks.at("recorded")
    shift.disk_failures, shift.locked_since = 0, None
    if wanted > 0:
        shift.me.joined()
    _written_down(shift, lost)
    shift.reaper.settled(shift.reaped)
    recorded, shift.results, shift.reaped = shift.results, [], []
    # Own commits do not change the data version, so look again after each.
    shift.stale = True
    shift.looked()
    shift.claims += len(taken)
    start(shift, taken, began)
    shift.reaper.buried(buried)
    for (outcome, seconds), state in zip(recorded, states):
        shift.tally.record(outcome, state, seconds)
    shift.commits += 1
    if shift.commits % CHECK_EVERY == 0 and shift.checkpointer.due():
        shift.checkpointer.run()  # a busy worker never gets to it otherwise


def equipped(shift: "Shift") -> bool:
    """Have what it takes to start a command before one is claimed; False when the machine has no descriptor
    for it now, which is not a job's fault."""
    try:
        shift.me.prepare()
        if shift.starter is None:
            from .room import Room
            from .start import Starter

            shift.starter = Starter(shift.db.spool, shift.environ, shift.options.label)
            shift.room = Room(shift.db.spool, shift.options.grace)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        shift.hold_back()
        return False
    return True


def start(shift: "Shift", taken: "list[Row]", began: float) -> None:
    """Start what was claimed; what cannot be started is a result, recorded with the next ones."""
    if not taken:
        return
    from .attempt import Attempt
    from .start import given_back

    assert shift.starter is not None
    shift.starter.captures.owned_by(shift.me.instance)
    for row in taken:
        if shift.stopping:
            shift.results.append((given_back(row, shift.options.label), 0.0))
            continue
        begun = shift.starter.start(row, began)
        if not isinstance(begun, Attempt):
            shift.results.append((begun, 0.0))
            if begun.state == "abandoned":
                shift.hold_back()
            continue
        shift.start_failures = 0
        shift.running[begun.key] = begun
        shift.unrecorded.append(begun)


def write_down(shift: "Shift") -> None:
    """Record the leaders of new attempts while they run, unless results come next: with them, then."""
    if not shift.unrecorded or shift.paused:
        return
    if shift.options.concurrency > 1:
        care.take_in(shift)
    if shift.pending:
        return
    leaders = [one.leader() for one in shift.unrecorded]
    with shift.db.write(full=False, any_schema=True) as conn:
        lost = claim.record_children(conn, leaders)
    shift.disk_failures = 0
    shift.db.promise(True)  # what comes next is most likely a result
    _written_down(shift, lost)


def _written_down(shift: "Shift", lost: "list[Row]") -> None:
    if shift.unrecorded:
        shift.unrecorded = []
        hooks.at("written down")
    for child in lost:
        care.lose(shift, (child["job_id"], child["attempt_no"]))
