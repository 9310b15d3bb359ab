"""Following a stored request until its job has left `running` (SPEC 6, Requests).

An owner that lives is waited for. One that is dead is reaped, one that stays silent for a second has its
recorded tree ended by the caller, one that cannot be judged is left alone unless `unverified`. Whoever
ends a tree settles under the guard of the attempt number, and only after the tree is proven gone.
"""

from .. import clock
from ..store import control, owners, settle, workers
from ..store.db import Db
from ..store.settle import FREE, Outcome
from . import identity
from .ending import GONE, STUCK, Ending
from .reap import DEFAULT_GRACE, Reaping, tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row

OVER, PENDING, UNVERIFIABLE, NOT_STARTED, REFUSED = (
    "over",
    "pending",
    "unverifiable_owner",
    "not_started",
    "refused",
)
SILENT_AFTER = 1.0  # seconds without the owner's stamp
BEYOND_GRACE = 2.0
LOOK = 0.01


class Pursuit:
    """One running job and what is asked of it; `outcome` is one of the words above once decided."""

    def __init__(self, db: Db, job: "Row", what: str, unverified: bool, own_token: "str | None") -> None:
        self.db = db
        self.own_token = own_token
        self.job = job
        self.what = what
        self.unverified = unverified
        self.job_id = int(job["id"])
        self.attempt_no = int(job["attempt_no"])
        self.outcome: "str | None" = None
        self.used_unverified = False
        owner = workers.get(db, int(job["owner"]))
        self.life = identity.liveness(db.spool, owner) if owner else identity.DEAD
        self.grace = float(owner["grace"]) if owner else DEFAULT_GRACE
        self.began = clock.monotonic()
        self.deadline = self.began + self.grace + BEYOND_GRACE
        self.ending: "Ending | None" = None
        self.reaping: "Reaping | None" = None

    @property
    def inside(self) -> bool:
        """Whether this very process belongs to the tree: it stores the request, and ends nothing."""
        ending = self.reaping.ending if self.reaping else self.ending
        return ending is not None and ending.tree.inside

    def ask(self, conn: object, now: float) -> None:
        """Store the request, inside the caller's transaction."""
        if self.life == identity.UNKNOWN and not self.unverified:
            self.outcome = UNVERIFIABLE
            return
        self.used_unverified = self.life == identity.UNKNOWN
        detail = "forced, unverified" if self.used_unverified and self.what == "requeue" else "forced"
        if self.what == "cancel":
            detail = "forced (was running)"
        if not control.request(conn, self.job_id, self.attempt_no, self.what, detail, now):  # type: ignore[arg-type]
            seen = control.watched(self.db, self.job_id)
            same = seen is not None and seen["request"] == self.what
            # The same request of somebody else is followed too; another kind, or a job that moved on, is not.
            self.outcome = None if same else REFUSED

    def step(self) -> None:
        """Look, and do what is next. Sets `outcome` when there is nothing more to do."""
        seen = control.watched(self.db, self.job_id)
        if seen is None or seen["state"] != "running" or seen["attempt_no"] != self.attempt_no:
            self.outcome = OVER
            self.close()
            return
        now = clock.monotonic()
        if self.life == identity.DEAD:
            self._reap()
        elif self.ending is not None:
            self._end_it()
        elif self.used_unverified:
            self._begin()
        elif seen["request_seen_at"] is None and now >= self.began + SILENT_AFTER:
            self._silent()
        if self.outcome is None and (now >= self.deadline or self.inside):
            self.outcome = PENDING
            self.close()

    def _reap(self) -> None:
        if self.reaping is None:
            self._read_again()  # it may have recorded its child before it died
            self.reaping = Reaping(self.db, self.job, self.grace, self.own_token)
        if self.reaping.over or (clock.monotonic() >= self.reaping.ending.at and self.reaping.step()):
            with self.db.write() as conn:
                settle.settle(conn, self.reaping.outcome(), clock.now())

    def _silent(self) -> None:
        """The owner does not answer: it is stopped, or it died meanwhile."""
        owner = workers.get(self.db, int(self.job["owner"]))
        if owner is None or identity.liveness(self.db.spool, owner) == identity.DEAD:
            self.life = identity.DEAD
            return
        self._read_again()
        if self.job["pid"] is None:
            with self.db.write() as conn:
                if control.take_back(conn, self.job_id, self.attempt_no, self.what):
                    self.outcome = NOT_STARTED
            return  # or the owner has answered just now, or the job has moved on
        self._begin()

    def _read_again(self) -> None:
        fresh = owners.running_job(self.db, self.job_id)
        if fresh is not None and fresh["attempt_no"] == self.attempt_no:
            self.job = fresh

    def _begin(self) -> None:
        self._read_again()
        self.ending = Ending(tree_of(self.db, self.job, self.own_token), self.grace)
        self.deadline = clock.monotonic() + self.grace + BEYOND_GRACE + 0.5
        self._end_it()

    def _end_it(self) -> None:
        assert self.ending is not None
        if clock.monotonic() < self.ending.at:
            return
        state = self.ending.step()
        if state != GONE and not (state == STUCK and self.unverified):
            return
        canceled = self.what == "cancel"
        outcome = Outcome(
            self.job_id, self.attempt_no, "canceled" if canceled else "abandoned", None, FREE, "canceled",
            "canceled" if canceled else "force-retried", worker_id=str(self.job["worker_label"]),
        )  # fmt: skip
        with self.db.write() as conn:
            settle.settle(conn, outcome, clock.now())

    def close(self) -> None:
        for ending in (self.ending, self.reaping.ending if self.reaping else None):
            if ending is not None:
                ending.tree.close()


def pursue(db: Db, pursuits: "list[Pursuit]") -> None:
    """Follow all of them to their outcome; at most grace + 2 s, or twice that for a silent owner."""
    version = -1
    while waiting := [one for one in pursuits if one.outcome is None]:
        seen = db.data_version()
        for one in waiting:
            busy = one.ending is not None or one.life == identity.DEAD or one.used_unverified
            if seen != version or busy or clock.monotonic() >= min(one.deadline, one.began + SILENT_AFTER):
                one.step()
        version = seen
        if any(one.outcome is None for one in waiting):
            clock.sleep(LOOK)
