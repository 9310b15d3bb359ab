"""One worker's shift: what it was told, what it holds, and what it may still take.

The modules around it each do one thing to a shift: `care` looks after running attempts, `turn` writes
results and claims, `house` keeps order, `leaving` knows when to go, and `loop` calls them in turn.
"""

from .. import clock
from ..contract.env import TOKEN
from ..errors import SpoolctlError
from ..store.checkpoint import Checkpointer
from ..store.db import Db
from .membership import Membership
from .reap import Reaper, Reaping
from .stops import Stops
from .tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.settle import Outcome
    from ..watch import Watch
    from .attempt import Attempt
    from .room import Room
    from .start import Starter

AGAIN = 0.02  # seconds until the next try when the write lock was not free
DISK_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # while the disk is full
START_PAUSES = DISK_PAUSES[:4]  # while the machine has no process or descriptor to give
OWN_DESCRIPTORS = 40  # of a worker for itself
PER_ATTEMPT = 3  # descriptors it keeps for each: both capture files and the leader


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


class Shift:
    """A worker of one lane on one connection. `say` takes a line for people and must not wait."""

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
        self.reaper = Reaper(db, environ.get(TOKEN))
        self.checkpointer = Checkpointer(db)
        self.starter: "Starter | None" = None  # made with the first claim: an idle worker stays small
        self.room: "Room | None" = None

        # By job and number: a worker may take a job anew before the attempt it lost of it is over.
        self.running: "dict[tuple[int, int], Attempt]" = {}
        self.ended: "list[Attempt]" = []  # over, their leaders still to be reaped
        self.results: "list[tuple[Outcome, float]]" = []  # to be recorded, with the seconds they took
        self.reaped: "list[Reaping]" = []  # of dead workers, to be recorded
        self.unrecorded: "list[Attempt]" = []  # their leaders are to be written down
        self.claims = self.commits = 0

        self.watch: "Watch | None" = None  # made with the first sleep
        self.news = False  # somebody may have committed since the last look
        self.version = -1  # the data version of the last look
        self.look_at = 0.0  # when to look again at the latest
        self.stale = True  # the database may have changed since
        self.ready = False  # something was due and a slot free then
        self.next_due: "float | None" = None  # wall time of the earliest delayed job

        self.retired: "SpoolctlError | None" = None  # why nothing more is claimed
        self.paused_until = 0.0
        self.disk_failures = 0
        self.claims_from = 0.0  # when to take jobs again
        self.start_failures = 0
        self.most = _at_once(options.concurrency)
        self.locked_since: "float | None" = None  # the write lock was not to be had since then
        self.house_at = self.rows_at = 0.0
        self.idle_since = clock.monotonic()
        self.drained = False
        self.unsettled: "list[int]" = []

    def looked(self) -> None:
        """A look begins, or a commit of our own is behind us, whose touch tells us nothing."""
        if self.watch is not None:
            self.watch.looked()

    @property
    def told(self) -> int:
        """How often it was told to stop."""
        return self.stops.count

    @property
    def stopping(self) -> bool:
        return self.told > 0 or self.retired is not None

    @property
    def paused(self) -> bool:
        return clock.monotonic() < self.paused_until

    @property
    def pending(self) -> bool:
        """Whether something that ended is still to be recorded."""
        return bool(self.results or self.reaped)

    def wanted(self) -> int:
        """How many jobs it could take now."""
        if self.stopping or (self.disk_failures and self.paused) or clock.monotonic() < self.claims_from:
            return 0
        free = self.most - len(self.running)
        if self.options.max_jobs is not None:
            free = min(free, self.options.max_jobs - self.claims)
        return free

    def hold_on(self, error: SpoolctlError) -> bool:
        """Whether a fault may pass (a busy or full database): keep everything and try again later."""
        self.stale = True  # what was seen may not have been acted on
        if error.code == "LOCKED":
            self.paused_until = clock.monotonic() + AGAIN
            if self.locked_since is None:
                self.locked_since = clock.monotonic()
        elif error.code == "DISK_FULL":
            pause = DISK_PAUSES[min(self.disk_failures, len(DISK_PAUSES) - 1)]
            if self.disk_failures == 0:
                self.tally.say(f"the disk is full: waiting for room ({error.message})")
            self.disk_failures += 1
            self.paused_until = clock.monotonic() + pause
        else:
            return False
        return True

    def hold_back(self) -> None:
        """The machine has no process or descriptor to give: take nothing for a while, longer each time."""
        pause = START_PAUSES[min(self.start_failures, len(START_PAUSES) - 1)]
        if self.start_failures == 0:
            self.tally.say("no process or descriptor to be had: waiting")
        self.start_failures += 1
        self.claims_from = clock.monotonic() + pause


def _at_once(wanted: int) -> int:
    """How many attempts this process runs at once: as many as its descriptors suffice for."""
    if wanted == 1:
        return 1
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (most - OWN_DESCRIPTORS) // PER_ATTEMPT))
