"""The worker: one thread that waits nowhere but in its poll (ARCHITECTURE, Processes).

Each turn takes in what ended, records results and claims what fits in one transaction, starts the
claimed commands, writes down their leaders, and looks after the house. Signals, child exits and the
next deadline wake it. Whatever may fail for a moment (a busy or full database) is kept and tried again.
"""

import gc
import select
import sqlite3

from .. import clock, hooks
from ..errors import SpoolctlError
from ..store import claim, settle, workers
from ..store.checkpoint import Checkpointer
from ..store.db import Db, Migrated, Replaced
from ..store.faults import translated
from . import house
from .membership import Membership
from .reap import Reaper, Reaping
from .stops import Stops
from .tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.db import Row
    from .attempt import Attempt
    from .room import Room
    from .start import Starter

PATIENCE = 0.05  # seconds a turn waits for the write lock
CHECK_EVERY = 8  # commits between two looks at the size of the WAL
LEAVE_PATIENCE = 2.0
AGAIN = 0.02  # until the next try when it was not free
DISK_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Options:
    """How to work. `slots`, `max_jobs`, `idle_timeout` None: no such limit. Times in seconds."""

    def __init__(
        self,
        queue: str = "default",
        kind: str = "command",
        label: str = "",
        once: bool = False,
        drain: bool = False,
        slots: "int | None" = None,
        concurrency: int = 1,
        max_jobs: "int | None" = None,
        idle_timeout: "float | None" = None,
        poll_interval: float = 1.0,
        grace: float = 5.0,
    ) -> None:
        self.queue = queue
        self.kind = kind
        self.label = label
        self.once = once
        self.drain = drain
        self.slots = slots
        self.concurrency = concurrency
        self.max_jobs = 1 if once else max_jobs
        self.idle_timeout = idle_timeout
        self.poll_interval = poll_interval
        self.grace = grace


class Loop:
    """A worker of one lane on one connection."""

    def __init__(
        self, db: Db, options: Options, environ: "dict[str, str]", say: "Callable[[str], bool]"
    ) -> None:
        self.db = db
        self.options = options
        self.environ = environ
        self.stops = Stops()
        self.tally = Tally(say)
        self.me = Membership(
            db, options.label, options.queue, options.kind, options.concurrency, options.grace
        )
        self.reaper = Reaper(db)
        self.checkpointer = Checkpointer(db)
        self.starter: "Starter | None" = None
        self.room: "Room | None" = None
        self.running: "dict[int, Attempt]" = {}
        self.ended: "list[Attempt]" = []  # over, their leaders still to be reaped
        self.results: "list[tuple[settle.Outcome, float]]" = []
        self.reaped: "list[Reaping]" = []
        self.unrecorded: "list[Row]" = []
        self.claims = self.commits = 0
        self.retired: "SpoolctlError | None" = None  # why nothing more is claimed
        self.ready = False  # something is due and a slot is free, as of the last look
        self.stale = True  # the database changed since the last look
        self.next_due: "float | None" = None
        self.paused_until = 0.0
        self.disk_failures = 0
        self.idle_since = clock.monotonic()
        self.drained = False
        self.unsettled: "list[int]" = []
        self._version = -1
        self.house_at = 0.0
        self.rows_at = 0.0

    @property
    def stopping(self) -> bool:
        return self.stops.count > 0 or self.retired is not None

    def run(self) -> None:
        """Work until there is a reason to leave. Raises DB_INVALID when the queue was taken away."""
        self.stops.install()
        threshold = gc.get_threshold()
        try:
            house.begin(self)
            self.db.impatient(PATIENCE)
            gc.freeze()  # what is loaded by now stays: looking through it again and again is for nothing
            gc.set_threshold(20_000)
            while True:
                self._turn()
                if house.finished(self):
                    break
                self._sleep()
        finally:
            gc.set_threshold(*threshold)
            gc.unfreeze()
            self._leave()
        if self.retired is not None:
            raise self.retired

    def _turn(self) -> None:
        try:
            house.take_in(self)
            self._record_and_claim()
            self._write_down()
            self._reap_leaders()
            house.look_after(self)
        except Replaced as gone:
            house.abandon(self)
            raise gone
        except Migrated as changed:
            self.retired = changed
        except SpoolctlError as error:
            self._hold_on(error)
        except sqlite3.Error as error:
            self._hold_on(translated(error, self.db.spool.db))

    def _hold_on(self, error: SpoolctlError) -> None:
        """A fault that may pass: keep everything and try again. Raises what cannot pass."""
        self.stale = True  # what was seen may not have been acted on
        if error.code == "LOCKED":
            self.paused_until = clock.monotonic() + AGAIN
            return
        if error.code != "DISK_FULL":
            house.abandon(self)
            raise error
        pause = DISK_PAUSES[min(self.disk_failures, len(DISK_PAUSES) - 1)]
        if self.disk_failures == 0:
            self.tally.say(f"the disk is full: waiting for room ({error.message})")
        self.disk_failures += 1
        self.paused_until = clock.monotonic() + pause

    def _wanted(self) -> int:
        """How many jobs this worker could take now."""
        if self.stopping or (self.disk_failures and clock.monotonic() < self.paused_until):
            return 0
        free = self.options.concurrency - len(self.running)
        if self.options.max_jobs is not None:
            free = min(free, self.options.max_jobs - self.claims)
        return free

    def _look(self) -> None:
        """See whether something can be claimed; only when the database changed or a time came."""
        version = self.db.data_version()
        if version != self._version:
            self._version, self.stale = version, True
        now = clock.now()
        if not self.stale and not (self.next_due is not None and now >= self.next_due):
            return
        self.stale = False
        self.ready, self.next_due = claim.look(self.db, self.options.queue, self.options.kind, now)
        if self.ready and self.options.slots is not None:
            self.ready = claim.running_in_lane(self.db, self.options.queue) < self.options.slots
            self.next_due = None
        house.changed(self)

    def _record_and_claim(self) -> None:
        """Results of ended attempts and the next claims, in one transaction."""
        if clock.monotonic() < self.paused_until:
            return
        if not self.results and not self.reaped:
            self._look()
        wanted = self._wanted()
        if not self.results and not self.reaped and not (wanted > 0 and self.ready):
            return
        now, began = clock.now(), clock.boottime()
        states: "list[str | None]" = []
        taken: "list[Row]" = []
        buried: "list[int]" = []
        if wanted > 0:
            self.me.prepare()
        promised = bool(self.results or self.reaped)
        with self.db.write(full=promised, any_schema=self.retired is not None) as conn:
            for outcome, _ in self.results:
                states.append(settle.settle(conn, outcome, now))
            for one in self.reaped:
                settle.settle(conn, one.outcome(), now)
                self.reaper.settled(one)
            if self.reaped or self.reaper.dead:
                buried = self.reaper.bury()
                for instance in buried:
                    workers.unregister(conn, instance)
            if wanted > 0:
                self.me.join(conn, now)
                taken = claim.claim(
                    conn, self.db, self.options.queue, self.options.kind, wanted, self.options.slots,
                    self.me.row, now, began,
                )  # fmt: skip
        hooks.at("recorded")
        self.disk_failures = 0
        if wanted > 0:
            self.me.joined()
        self.reaper.buried(buried)
        self.reaped = []
        recorded, self.results = self.results, []
        # Own commits do not change the data version, so look again after each; unless slots are full.
        self.stale = True
        self.claims += len(taken)
        self._start(taken, began)
        for (outcome, seconds), state in zip(recorded, states):
            self.tally.record(outcome, state, seconds)
        self.commits += 1
        if self.commits % CHECK_EVERY == 0 and self.checkpointer.due():
            self.checkpointer.run()  # a busy worker never gets to it otherwise

    def _start(self, taken: "list[Row]", began: float) -> None:
        if not taken:
            return
        from .attempt import Attempt
        from .start import Starter, given_back

        if self.starter is None:
            from .room import Room

            self.starter = Starter(self.db.spool, self.environ, self.options.label, self.me.instance)
            self.room = Room(self.db.spool, self.options.grace)
        for row in taken:
            if self.stopping:
                self.results.append((given_back(row, self.options.label), 0.0))
                continue
            begun = self.starter.start(row, began)
            if not isinstance(begun, Attempt):
                self.results.append((begun, 0.0))
                if begun.state == "abandoned":
                    self.paused_until = clock.monotonic() + 1.0
                continue
            self.running[begun.job_id] = begun
            self.unrecorded.append(
                {
                    "job_id": begun.job_id,
                    "attempt_no": begun.attempt_no,
                    "pid": begun.pid,
                    "pid_start": begun.tree.start,
                }
            )

    def _write_down(self) -> None:
        """Record the leaders of new attempts while they run."""
        if not self.unrecorded or clock.monotonic() < self.paused_until:
            return
        lost = claim.record_children(self.db, self.unrecorded)
        hooks.at("written down")
        self.db.promise(True)  # what comes next is most likely a result
        self.unrecorded = []
        for child in lost:
            one = self.running.get(child["job_id"])
            if one is not None:
                house.lose(self, one)

    def _reap_leaders(self) -> None:
        """Let the numbers of ended leaders go: late, so that the next command is already running."""
        for one in self.ended:
            one.reap()
        self.ended = []

    def _sleep(self) -> None:
        seconds = house.until(self)
        if seconds > 0:
            if self.starter is not None and self.running and not self.stopping:
                self.starter.captures.prepare()  # while the command runs anyway
            poller = select.poll()
            poller.register(self.stops.fd, select.POLLIN)
            for one in self.running.values():
                if one.exit is not None:
                    continue
                if one.exit_fd >= 0:
                    poller.register(one.exit_fd, select.POLLIN)
                else:
                    self.stops.watch_children()
            ready = poller.poll(max(1, int(seconds * 1000 + 0.999)))
            if any(fd == self.stops.fd for fd, _ in ready):
                self.stops.drain()

    def _leave(self) -> None:
        try:
            self.db.impatient(LEAVE_PATIENCE)
            self.me.leave()
        except (SpoolctlError, sqlite3.Error):
            pass  # the row is found dead by its lock and removed by others
        if self.starter is not None:
            self.starter.close()
        self.checkpointer.close()
        self.reaper.close()
        self.stops.restore()
