"""Looking after running attempts: their ends, their limits, what is asked of them, and whose they are."""

from .. import clock
from ..store import control, owners, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .attempt import Attempt
    from .reap import Reaping
    from .shift import Shift


def take_in(shift: "Shift") -> None:
    """Advance every running attempt and every reaping; collect the outcomes of those that are over."""
    grace = shift.options.grace
    if shift.told >= 2:
        for one in shift.running.values():
            one.end("shutdown", grace)
    for one in list(shift.running.values()):
        if one.advance(shift.told > 0, grace):
            _over(shift, one)
        elif one.stuck and not one.told_stuck:
            _stuck(shift, one)
    if shift.room is not None and shift.running:
        shift.room.watch(list(shift.running.values()))
    for reaping in shift.reaper.step(clock.monotonic()):
        if reaping not in shift.reaped:
            shift.reaped.append(reaping)
    for reaping in shift.reaper.leave():
        what = f"job {reaping.job_id} attempt {reaping.attempt_no} of a dead worker"
        shift.tally.say(f"{what} is left to others: this worker is part of it")
    for reaping in shift.reaper.active.values():
        if reaping.stuck and not reaping.told_stuck:
            _stuck(shift, reaping)


def _over(shift: "Shift", one: "Attempt") -> None:
    if shift.room is not None:
        shift.room.over(one)
    del shift.running[one.key]
    shift.ended.append(one)  # reaped when the next command runs
    if shift.unrecorded:
        shift.unrecorded = [other for other in shift.unrecorded if other is not one]
    outcome, seconds = one.outcome(shift.told > 0), clock.monotonic() - one.started
    if one.why == "lost":
        shift.tally.record(outcome, None, seconds)
    else:
        shift.results.append((outcome, seconds))


def _stuck(shift: "Shift", one: "Attempt | Reaping") -> None:
    ending = one.ending
    if shift.paused:
        return  # told at a later turn
    assert ending is not None
    label = shift.options.label
    with shift.db.write(full=False, any_schema=shift.retired is not None, told=True) as conn:
        settle.mark_stuck(conn, one.job_id, one.attempt_no, ending.pids, ending.why, label, clock.now())
    one.told_stuck = True


def lose(shift: "Shift", key: "tuple[int, int]") -> None:
    """The attempt is somebody else's now: end its tree, record nothing."""
    one = shift.running.get(key)
    if one is not None:
        one.end("lost", shift.options.grace)


def heed(shift: "Shift") -> None:
    """The database changed: are the attempts still ours, and what is asked of them?"""
    if not shift.running:
        return
    mine = owners.held_by(shift.db, shift.me.instance)
    for one in shift.running.values():
        if mine.get(one.job_id) != one.attempt_no:
            lose(shift, one.key)
    asked = control.requests_of(shift.db, shift.me.instance)
    unseen = [(job_id, attempt_no) for job_id, attempt_no, _, seen_at in asked if seen_at is None]
    if unseen:
        with shift.db.write(full=False, any_schema=shift.retired is not None, told=True) as conn:
            for job_id, attempt_no in unseen:
                control.stamp(conn, job_id, attempt_no, clock.now())
    for job_id, attempt_no, what, _ in asked:
        asked_of = shift.running.get((job_id, attempt_no))
        if asked_of is not None:
            asked_of.end(what, shift.options.grace)


def abandon(shift: "Shift") -> None:
    """The queue is gone, and nobody else could find these trees: end them all, then leave."""
    grace = shift.options.grace
    for one in shift.running.values():
        one.end("lost", grace)
    deadline = clock.monotonic() + grace + 3.0
    while shift.running and clock.monotonic() < deadline:
        for one in list(shift.running.values()):
            if one.advance(True, grace):
                del shift.running[one.key]
                one.reap()
        clock.sleep(0.01)


def reap_leaders(shift: "Shift") -> None:
    """Let the numbers of ended leaders go: late, so that the next command is already running."""
    for one in shift.ended:
        one.reap()
    shift.ended = []
