"""Following a stored request until its job has left `running` (SPEC 6, Requests).

An owner that lives is waited for. One that is dead is reaped, one that stays silent for a second has its
recorded tree ended by the caller, one that cannot be judged is left alone unless `unverified`. Whoever
ends a tree settles under the guard of the attempt number, and only after the tree is proven gone, or
with `unverified` after it was seen that it cannot be ended.
"""

from .. import clock
from ..contract.limits import AFTER_KILL, BEYOND_GRACE, GRACE, SILENT_AFTER, UNPROVEN
from ..store import control, owners, settle, workers
from ..store.db import Db
from ..store.settle import FREE, Outcome
from . import identity
from .ending import GONE, STUCK, Ending
from .reap import Reaping, tree_of
from .scene import Scene

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from ..store.db import Row

OVER, PENDING, MOVED, UNVERIFIABLE, NOT_STARTED, REFUSED = (
    "over",
    "pending",
    "moved",  # the attempt was over before the request could be stored, or without it
    "unverifiable_owner",
    "not_started",
    "refused",  # another request stands, or stood when the attempt ended
)
TO_TELL = 0.5  # seconds more in which what the caller ends itself is found gone or stuck
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
        self.unproven = AFTER_KILL if unverified else UNPROVEN  # it does not wait for a proof that is missing
        owner = workers.get(db, int(job["owner"]))
        self.life = identity.liveness(db.spool, owner) if owner else identity.DEAD
        self.grace = float(owner["grace"]) if owner else GRACE
        self.began = clock.monotonic()
        self.judge_at = self.began + SILENT_AFTER
        self.deadline = self.began + self.grace + BEYOND_GRACE
        self._scene: "Scene | None" = None
        self.ending: "Ending | None" = None
        self.reaping: "Reaping | None" = None

    @property
    def inside(self) -> bool:
        """Whether this very process belongs to the tree: it stores the request, and ends nothing."""
        ending = self.reaping.ending if self.reaping else self.ending
        return ending is not None and ending.tree.inside

    @property
    def detail(self) -> str:
        """What the event says of the request."""
        if self.what == "cancel":
            return "forced (was running)"
        return "forced, unverified" if self.used_unverified else "forced"

    def ask(self, conn: "sqlite3.Connection", now: float) -> None:
        """Store the request, inside the caller's transaction. The same one of somebody else is followed."""
        if self.life == identity.UNKNOWN and not self.unverified:
            self.outcome = UNVERIFIABLE
            return
        self.used_unverified = self.life == identity.UNKNOWN
        if control.request(conn, self.job_id, self.attempt_no, self.what, self.detail, now):
            return
        seen = control.watched(self.db, self.job_id)
        if not self._runs(seen):
            self.outcome = MOVED
        elif seen is not None and seen["request"] != self.what:
            self.outcome = REFUSED
        elif self.used_unverified:
            control.restate(conn, self.job_id, self.attempt_no, self.what, self.detail)

    def _runs(self, seen: "Row | None") -> bool:
        return seen is not None and seen["state"] == "running" and seen["attempt_no"] == self.attempt_no

    def step(self, scene: "Scene | None" = None) -> None:
        """Look, and do what is next. Sets `outcome` when there is nothing more to do."""
        self._scene = scene
        seen = control.watched(self.db, self.job_id)
        if seen is None or not self._runs(seen):
            self.outcome = self._fate(seen)
        elif seen["request"] != self.what:
            # Taken back by another caller that found no command started, or a cancel in its place.
            self.outcome = NOT_STARTED if seen["request"] is None else REFUSED
        else:
            self._act(seen["request_seen_at"] is None)
            if self.outcome is None and (clock.monotonic() >= self.deadline or self.inside):
                seen = control.watched(self.db, self.job_id)  # it may just have been settled
                self.outcome = PENDING if self._runs(seen) else self._fate(seen)
        if self.outcome is not None:
            self.close()

    def _fate(self, seen: "Row | None") -> str:
        """What became of the request, now that the attempt is over."""
        if seen is None or seen["attempt_no"] != self.attempt_no:
            return OVER
        if seen["state"] == "canceled" and self.what == "requeue":
            return REFUSED
        return MOVED if seen["state"] in ("done", "dead") else OVER

    def _act(self, silent: bool) -> None:
        now = clock.monotonic()
        if self.life == identity.DEAD:
            self._reap()
        elif self.ending is not None:
            self._end_it()
        elif self.used_unverified:
            self._begin()
        elif now >= self.judge_at:
            self.judge_at = now + SILENT_AFTER
            self._judge(silent)

    def _judge(self, silent: bool) -> None:
        """A second has passed: does the owner live, has it answered, can it do what it was asked?"""
        owner = workers.get(self.db, int(self.job["owner"]))
        self.life = identity.liveness(self.db.spool, owner) if owner else identity.DEAD
        if self.life == identity.DEAD:
            self._reap()
            return
        self._read_again()
        if self.unverified and self.job["ending_since"] is not None:
            self._settle(self._ended_by_force(), overridden=True)
        elif not silent or (self.life == identity.UNKNOWN and not self.unverified):
            return  # it is at it, or nobody can say
        elif self.job["pid"] is not None:
            self._begin()
        else:
            with self.db.write() as conn:
                if control.take_back(conn, self.job_id, self.attempt_no, self.what):
                    self.outcome = NOT_STARTED
            # Or the owner has answered just now, or the job has moved on.

    def _reap(self) -> None:
        if self.reaping is None:
            self._read_again()  # it may have recorded its child before it died
            self.reaping = Reaping(self.db, self.job, self.grace, self.own_token, self.unproven)
            self.deadline = clock.monotonic() + self.grace + BEYOND_GRACE + TO_TELL
        if not self.reaping.over and clock.monotonic() >= self.reaping.ending.at:
            self.reaping.step(self._scene)
        if self.reaping.over or (self.reaping.stuck and self.unverified):
            self._settle(self.reaping.outcome(), overridden=not self.reaping.over)

    def _read_again(self) -> None:
        fresh = owners.running_job(self.db, self.job_id)
        if fresh is not None and fresh["attempt_no"] == self.attempt_no:
            self.job = fresh

    def _begin(self) -> None:
        self.ending = Ending(tree_of(self.db, self.job, self.own_token), self.grace, self.unproven)
        self.deadline = clock.monotonic() + self.grace + BEYOND_GRACE + TO_TELL
        self._end_it()

    def _end_it(self) -> None:
        assert self.ending is not None
        if clock.monotonic() < self.ending.at:
            return
        state = self.ending.step(self._scene)
        if state == GONE or (state == STUCK and self.unverified):
            self._settle(self._ended_by_force(), overridden=state != GONE)

    def _ended_by_force(self) -> Outcome:
        canceled = self.what == "cancel"
        return Outcome(
            self.job_id, self.attempt_no, "canceled" if canceled else "abandoned", None, FREE, "canceled",
            "canceled" if canceled else "force-retried", worker_id=str(self.job["worker_label"]),
        )  # fmt: skip

    def _settle(self, outcome: Outcome, overridden: bool) -> None:
        """overridden: the tree could not be ended, and the job goes on all the same."""
        with self.db.write() as conn:
            if overridden:
                self.used_unverified = True
                control.restate(conn, self.job_id, self.attempt_no, self.what, self.detail)
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
        ending = [one for one in waiting if one.ending is not None or one.reaping is not None]
        scene = Scene() if len(ending) > 1 else None  # one look for all
        for one in waiting:
            busy = one.ending is not None or one.life == identity.DEAD or one.used_unverified
            if seen != version or busy or clock.monotonic() >= min(one.deadline, one.judge_at):
                one.step(scene if one in ending else None)
        version = seen
        if any(one.outcome is None for one in waiting):
            clock.sleep(LOOK)
