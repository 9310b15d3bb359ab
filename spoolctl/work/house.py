"""What a worker does around running commands: endings, requests, dead owners, limits, and when to leave."""

from .. import clock
from ..store import control, owners, settle
from . import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .attempt import Attempt
    from .loop import Loop
    from .reap import Reaping

EVERY = 1.0  # seconds between two looks for dead owners
REQUESTS_EVERY = 0.2  # while commands run: a request is answered within this
ROWS_EVERY = 600.0  # looks for rows of dead workers that ran nothing


def begin(loop: "Loop") -> None:
    """First looks: dead owners before anything else; a plain worker registers at once."""
    if not loop.options.once and not loop.options.drain:
        loop.me.prepare()
        with loop.db.write(full=False) as conn:
            loop.me.join(conn, clock.now())
        loop.me.joined()
    loop.reaper.look(loop.me.instance)


def take_in(loop: "Loop") -> None:
    """Advance every running attempt; collect the outcomes of those that are over."""
    grace = loop.options.grace
    if loop.stops.count >= 2:
        for one in loop.running.values():
            one.end("shutdown", grace)
    for one in list(loop.running.values()):
        if one.advance(loop.stops.count > 0, grace):
            _over(loop, one)
        elif one.stuck and not one.told_stuck:
            _stuck(loop, one)
    if loop.room is not None and loop.running:
        loop.room.watch(list(loop.running.values()))
    now = clock.monotonic()
    for reaping in loop.reaper.step(now):
        if reaping not in loop.reaped:
            loop.reaped.append(reaping)
    for reaping in loop.reaper.active.values():
        if reaping.stuck and not reaping.told_stuck:
            _stuck(loop, reaping)


def _over(loop: "Loop", one: "Attempt") -> None:
    if loop.room is not None:
        loop.room.over(one)
    del loop.running[one.job_id]
    loop.ended.append(one)  # reaped when the next command runs
    if loop.unrecorded:
        loop.unrecorded = [c for c in loop.unrecorded if c["job_id"] != one.job_id]
    seconds = clock.monotonic() - one.started
    if one.why == "lost":
        loop.tally.record(one.outcome(loop.stops.count > 0), None, seconds)
        return
    loop.results.append((one.outcome(loop.stops.count > 0), seconds))


def _stuck(loop: "Loop", one: "Attempt | Reaping") -> None:
    ending = one.ending
    assert ending is not None
    with loop.db.write(full=False, any_schema=loop.retired is not None) as conn:
        settle.mark_stuck(
            conn,
            one.job_id,
            one.attempt_no,
            ending.pids,
            ending.why,
            loop.options.label,
            clock.now(),
        )
    one.told_stuck = True


def lose(loop: "Loop", one: "Attempt") -> None:
    """The attempt is somebody else's now: end its tree, record nothing."""
    one.end("lost", loop.options.grace)


def abandon(loop: "Loop") -> None:
    """The queue is gone, and nobody else could find these trees: end them all, then leave."""
    for one in loop.running.values():
        one.end("lost", loop.options.grace)
    deadline = clock.monotonic() + loop.options.grace + 3.0
    while loop.running and clock.monotonic() < deadline:
        for one in list(loop.running.values()):
            if one.advance(True, loop.options.grace):
                del loop.running[one.job_id]
                one.reap()
        clock.sleep(0.01)


def changed(loop: "Loop") -> None:
    """The database changed: what is asked of our jobs, and are they still ours?"""
    if not loop.running:
        return
    mine = owners.held_by(loop.db, loop.me.instance)
    for one in loop.running.values():
        if mine.get(one.job_id) != one.attempt_no:
            lose(loop, one)
    asked = control.requests_of(loop.db, loop.me.instance)
    if not asked:
        return
    with loop.db.write(full=False, any_schema=loop.retired is not None) as conn:
        for job_id, attempt_no, _ in asked:
            control.stamp(conn, job_id, attempt_no, clock.now())
    for job_id, attempt_no, what in asked:
        asked_of = loop.running.get(job_id)
        if asked_of is not None and asked_of.attempt_no == attempt_no:
            asked_of.end(what, loop.options.grace)


def look_after(loop: "Loop") -> None:
    """Once a second: is the queue still there, dead owners, the heartbeat, the WAL."""
    now = clock.monotonic()
    if now < loop.house_at:
        return
    loop.house_at = now + EVERY
    if loop.db.exists:
        loop.db.check_in_place()
    loop.reaper.look(loop.me.instance)
    if now >= loop.rows_at:
        loop.rows_at = now + ROWS_EVERY
        loop.reaper.find_dead_rows(loop.me.instance)
    loop.me.beat()
    if loop.starter is not None:
        loop.starter.adoption.refresh()  # what was kept may have ended, and waits to be reaped
    if loop.reaper.bury() and not loop.results and not loop.stopping:
        _bury(loop)
    if loop.checkpointer.due():
        loop.checkpointer.run()


def _bury(loop: "Loop") -> None:
    from ..store import workers

    buried = loop.reaper.bury()
    with loop.db.write(full=False) as conn:
        for instance in buried:
            workers.unregister(conn, instance)
    loop.reaper.buried(buried)


def finished(loop: "Loop") -> bool:
    """Whether there is a reason to leave."""
    options = loop.options
    if loop.results or loop.reaped:
        # Told twice on a disk that stays full, it leaves what it cannot write down to the reapers.
        return loop.stops.count >= 2 and loop.disk_failures > 1 and not loop.running
    if loop.running:
        # What cannot be ended does not hold the exit after a second signal; its row stays for the reapers.
        return loop.stops.count >= 2 and all(one.stuck for one in loop.running.values())
    if loop.stopping or (options.max_jobs is not None and loop.claims >= options.max_jobs):
        return True
    if loop.ready or loop.stale:
        loop.idle_since = clock.monotonic()
        return False
    if loop.reaper.busy:
        return False
    if options.once:
        return True
    if options.drain and _settled(loop):
        loop.drained = True
        return True
    return options.idle_timeout is not None and clock.monotonic() - loop.idle_since >= options.idle_timeout


def _settled(loop: "Loop") -> bool:
    """Whether the lane has settled (SPEC 6); what does not hold it is named in `unsettled`."""
    db, options = loop.db, loop.options
    with db.read():
        from ..store import claim, workers

        due, _ = claim.look(db, options.queue, options.kind, clock.now())
        if due or owners.in_backoff(db, options.queue, options.kind):
            return False
        loop.unsettled = []
        rows = owners.running_in_lane(db, options.queue, options.kind)
        found = {owner: workers.get(db, owner) for owner in {int(row["owner"]) for row in rows}}
    for row in rows:
        owner = found[int(row["owner"])]
        leased = row["owner"] == 0
        unknown = owner is not None and identity.liveness(db.spool, owner) == identity.UNKNOWN
        if not (leased or unknown or row["ending_since"] is not None):
            return False
        loop.unsettled.append(int(row["id"]))
    return True


def until(loop: "Loop") -> float:
    """Seconds the loop may sleep."""
    now = clock.monotonic()
    wanted = loop._wanted()
    times = [now + min(loop.options.poll_interval, EVERY), loop.house_at]
    if loop.results or loop.unrecorded or loop.reaped or (wanted > 0 and (loop.ready or loop.stale)):
        times.append(loop.paused_until)
    if loop.running:
        times.append(now + REQUESTS_EVERY)
        times += [at for one in loop.running.values() if (at := one.next_at()) is not None]
        if loop.room is not None and (at := loop.room.next_at(list(loop.running.values()))) is not None:
            times.append(at)
    if (at := loop.reaper.next_at()) is not None:
        times.append(at)
    if loop.next_due is not None and wanted > 0:
        times.append(now + max(0.0, loop.next_due - clock.now()))
    if loop.options.idle_timeout is not None and not loop.running:
        times.append(loop.idle_since + loop.options.idle_timeout)
    return max(0.0, min(times) - now)
