"""The worker: one thread that waits nowhere but in its poll.

Each turn takes in what ended, records results and claims what fits in one transaction, starts the
claimed commands, writes down their leaders, and looks after the house. Signals, child exits and the
next deadline wake it. Whatever may fail for a moment (a busy or full database) is kept and tried again.
"""

import gc
import select

from .. import clock
from ..contract.limits import OWNERS_EVERY, SILENT_AFTER
from ..errors import SpoolctlError
from ..store import sqlite3
from ..store.db import Migrated, Replaced
from ..store.faults import translated
from . import care, house, leaving, turn
from .shift import Shift

PATIENCE = 0.05  # seconds a turn waits for the write lock
LEAVE_PATIENCE = 2.0


def run(shift: Shift) -> None:
    """Work until there is a reason to leave. Raises DB_INVALID when the queue was taken away."""
    shift.stops.install()
    threshold = gc.get_threshold()
    try:
        house.begin(shift)
        shift.db.impatient(PATIENCE)
        gc.freeze()  # what is loaded by now stays: looking through it again and again is for nothing
        gc.set_threshold(20_000)
        while True:
            _turn(shift)
            if leaving.finished(shift):
                break
            _sleep(shift)
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
        _leave(shift)
    if shift.retired is not None:
        raise shift.retired


def _turn(shift: Shift) -> None:
    waiting = shift.paused
    try:
        care.take_in(shift)
        turn.record_and_claim(shift)
        turn.write_down(shift)
        care.reap_leaders(shift)
        house.look_after(shift)
    except (Replaced, OSError):
        care.abandon(shift)
        raise
    except Migrated as changed:
        shift.retired = changed
    except (SpoolctlError, sqlite3.Error) as error:
        known = error if isinstance(error, SpoolctlError) else translated(error, shift.db.spool.db)
        if not shift.hold_on(known):
            care.abandon(shift)
            raise known from error
    else:
        if not waiting:  # whatever was to be written is written
            shift.locked_since = None


def _until(shift: Shift) -> float:
    """Seconds until the next turn is due, if nothing wakes it before."""
    now = clock.monotonic()
    wanted = shift.wanted()
    times = [now + min(shift.options.poll_interval, OWNERS_EVERY)]
    # What needs the database waits for the end of a pause.
    writes = [shift.house_at]
    if shift.pending or shift.unrecorded or shift.news or (wanted > 0 and (shift.ready or shift.stale)):
        writes.append(now)
    if shift.claims_from > now:
        writes.append(shift.claims_from)
    if shift.next_due is not None and wanted > 0:
        writes.append(now + shift.next_due - clock.now())
    times.append(max(min(writes), shift.paused_until))
    if shift.paused_until > now:
        times.append(shift.paused_until)  # nobody tells it anything meanwhile
    running = list(shift.running.values())
    if running:
        # A request whose touch was lost is seen before its caller calls this worker silent.
        told = shift.watch is not None and shift.watch.fd >= 0
        times.append(now + (SILENT_AFTER / 2 if told else turn.REQUESTS_EVERY))
        times += [at for one in running if (at := one.next_at()) is not None]
        if shift.room is not None and (at := shift.room.next_at(running)) is not None:
            times.append(at)
    elif shift.options.idle_timeout is not None:
        # Past already: something else holds the leave, and wakes the loop when it is over.
        times += [at for at in [shift.idle_since + shift.options.idle_timeout] if at > now]
    if (at := shift.reaper.next_at()) is not None:
        times.append(at)
    return max(0.0, min(times) - now)


def _sleep(shift: Shift) -> None:
    seconds = _until(shift)
    if seconds <= 0 or _begins_to_watch(shift):
        return
    if shift.starter is not None and shift.running and not shift.stopping:
        shift.starter.captures.prepare()  # while the command runs anyway
    poller = select.poll()
    poller.register(shift.stops.fd, select.POLLIN)
    for one in shift.running.values():
        if one.exit is None and one.exit_fd >= 0:
            poller.register(one.exit_fd, select.POLLIN)
        elif one.exit is None:
            shift.stops.watch_children()
    deaths = shift.reaper.deaths
    if deaths is not None:
        poller.register(deaths.fd, select.POLLIN)
    ready = _poll(shift, poller, seconds)
    if any(fd == shift.stops.fd for fd, _ in ready):
        shift.stops.drain()
    if deaths is not None and any(fd == deaths.fd for fd, _ in ready) and deaths.heard():
        shift.house_at = 0.0  # an owner has died: look now


def _begins_to_watch(shift: Shift) -> bool:
    """Be told of other processes' commits from now on; True when that is new, and one more look is due."""
    if shift.watch is None:
        try:
            from ..watch import Watch
        except OSError:  # no descriptor to load it with
            return False
        shift.watch = Watch(shift.db.spool)
    if not shift.db.exists or not shift.watch.begin():
        return False
    shift.news = True
    return True


def _poll(shift: Shift, poller: select.poll, seconds: float) -> "list[tuple[int, int]]":
    """Wait for whatever is registered, and for news; for these not before they may be acted on."""
    watch = shift.watch
    pause = seconds if shift.paused or watch is None else min(watch.pause(), seconds)
    if pause > 0:
        ready = poller.poll(_milliseconds(pause))
        if ready or pause == seconds:
            return ready
    assert watch is not None
    if watch.fd >= 0:
        poller.register(watch.fd, select.POLLIN)
    ready = poller.poll(_milliseconds(seconds - pause))
    if any(fd == watch.fd for fd, _ in ready) and watch.heard():
        shift.news = True
    return ready


def _milliseconds(seconds: float) -> int:
    """Rounded up, for a poll must not end before its time."""
    return max(1, int(seconds * 1000 + 0.999))


def _leave(shift: Shift) -> None:
    try:
        shift.db.impatient(LEAVE_PATIENCE)
        shift.me.leave()
    except (SpoolctlError, sqlite3.Error, OSError):
        pass  # the row is found dead by its lock and removed by others
    if shift.starter is not None:
        shift.starter.close()
    shift.checkpointer.close()
    shift.reaper.close()
    if shift.watch is not None:
        shift.watch.close()
    shift.stops.restore()
