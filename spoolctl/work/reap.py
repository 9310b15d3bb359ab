"""Bringing back the jobs of dead workers (SPEC 6): end and prove gone the tree, then one transaction.

The verdict DEAD is final, so it needs no second look; the guard by attempt number lets one of several
reapers through. A row whose owner is UNKNOWN is left alone.
"""

import os

from .. import clock
from ..contract.limits import GRACE, UNPROVEN
from ..paths import Spool, raw
from ..store import owners, workers
from ..store.db import Db
from ..store.settle import CRASH, Outcome
from . import capture, identity, proc
from .ending import GONE, STUCK, Ending
from .scene import Scene
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from .deaths import Events, PidFds

WATCHED = 100  # owners whose end is told at once; others are found by the look once a second


class Reaping:
    """One running job of a dead owner, until its tree is proven gone."""

    def __init__(
        self, db: Db, job: "Row", grace: float, own_token: "str | None", unproven: float = UNPROVEN
    ) -> None:
        self.job = job
        self.job_id = int(job["id"])
        self.attempt_no = int(job["attempt_no"])
        self.owner = int(job["owner"])
        self.ending = Ending(tree_of(db, job, own_token), grace, unproven)
        # Processes of another boot are gone, and their numbers mean nothing here.
        self.over = identity.other_boot(job["boot_id"])
        self.told_stuck = False

    def step(self, scene: "Scene | None" = None) -> bool:
        """The next step; True when the tree is gone."""
        self.over = self.over or self.ending.step(scene) == GONE
        return self.over

    @property
    def stuck(self) -> bool:
        return self.ending.state == STUCK

    @property
    def inside(self) -> bool:
        """Whether this very process belongs to the tree: then it is left to others."""
        return not self.over and self.ending.tree.inside

    def outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.attempt_no,
            "abandoned",
            "reaped",
            CRASH,
            "worker_crash",
            "worker died",
            detail=f"dead worker pid {self.job['worker_pid']}",
            worker_id=str(self.job["worker_label"]),
        )


def tree_of(db: Db, job: "Row", own_token: "str | None") -> Tree:
    """The tree of somebody else's attempt; a pid recorded in another namespace says nothing here."""
    here = job["pid_ns"] is not None and job["pid_ns"] == proc.pid_namespace()
    return Tree(
        db.spool,
        int(job["id"]),
        int(job["attempt_no"]),
        job["pid"] if here else None,
        job["pid_start"] if here else None,
        str(job["token"]),
        job["began"],
        job["session"] if here else None,
        own_token,
    )


class Reaper:
    """Looks for dead owners of every lane and brings their jobs back, step by step."""

    def __init__(self, db: Db, own_token: "str | None") -> None:
        self.db = db
        self.own_token = own_token  # when this worker is itself part of an attempt
        self.left: "dict[tuple[int, int], int]" = {}  # to others: attempts we belong to, and their owners
        self.active: "dict[tuple[int, int], Reaping]" = {}
        self.dead: "dict[int, Row | None]" = {}  # instance -> its row
        self.deaths: "PidFds | Events | None" = None  # made when there is somebody to watch

    def look(self, me: int) -> None:
        """Begin with the jobs of owners that died; watch those that live. Reads only."""
        living: "set[int]" = set()
        for owner in owners.others(self.db, me):
            row = workers.get(self.db, owner)
            if row is not None and identity.liveness(self.db.spool, row) != identity.DEAD:
                if identity.same_place(row) and len(living) < WATCHED:
                    living.add(int(row["pid"]))
                continue
            self.dead[owner] = row
            grace = float(row["grace"]) if row else GRACE
            for job in owners.running_of(self.db, owner):
                key = (int(job["id"]), int(job["attempt_no"]))
                if key not in self.active and key not in self.left:
                    self.active[key] = Reaping(self.db, job, grace, self.own_token)
        if living and self.deaths is None:
            from .deaths import open_deaths

            self.deaths = open_deaths()
        if self.deaths is not None:
            self.deaths.watch(living)

    def step(self, now: float) -> "list[Reaping]":
        """Advance what is due; those whose tree is gone, to be settled by the caller."""
        due = [one for one in self.active.values() if not one.over and one.ending.at <= now]
        scene = Scene() if len(due) > 1 else None
        for one in due:
            one.step(scene)
        return [one for one in self.active.values() if one.over]

    def leave(self) -> "list[Reaping]":
        """Give up those whose tree we belong to; them."""
        given_up = [one for one in self.active.values() if one.inside]
        for one in given_up:
            one.ending.tree.close()
            key = (one.job_id, one.attempt_no)
            self.left[key] = self.active.pop(key).owner
        return given_up

    def next_at(self) -> "float | None":
        """When `step` has to be called next; what is over waits for its record alone."""
        return min((one.ending.at for one in self.active.values() if not one.over), default=None)

    def settled(self, over: "list[Reaping]") -> None:
        """Their records are committed."""
        for one in over:
            self.active.pop((one.job_id, one.attempt_no), None)

    @property
    def busy(self) -> bool:
        """Whether something is being ended that is not stuck."""
        return any(not one.stuck for one in self.active.values())

    def bury(self, over: "list[Reaping] | None" = None) -> "list[int]":
        """Dead workers whose jobs are all settled, or will be with `over`: for the caller's transaction,
        after which their locks can be removed."""
        held = {one.owner for one in self.active.values() if one not in (over or [])}
        return sorted(self.dead.keys() - held - set(self.left.values()))

    def buried(self, instances: "list[int]") -> None:
        for instance in instances:
            row = self.dead.pop(instance)
            capture.discard(raw(capture.spare_path(self.db.spool, instance)))
            identity.remove_lock(self.db.spool, instance, row)

    def find_dead_rows(self, me: int) -> None:
        """Rows of workers that died with nothing running."""
        rows = workers.all_rows(self.db)
        for row in rows:
            if row["instance"] != me and identity.liveness(self.db.spool, row) == identity.DEAD:
                self.dead[int(row["instance"])] = row
        sweep(self.db.spool, {int(row["instance"]): (row["lock_dev"], row["lock_ino"]) for row in rows})

    def close(self) -> None:
        for one in self.active.values():
            one.ending.tree.close()
        if self.deaths is not None:
            self.deaths.close()


def sweep(spool: Spool, instances: "dict[int, tuple[int, int]]") -> None:
    """Remove what workers without a row left beside the database: killed before they were registered, or
    while another one was clearing up after them. Young files may still get their row."""
    folder, named = raw(spool.workers), set(instances.values())
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = folder + b"/" + name
        number, _, kind = name.partition(b".")
        try:
            info = os.stat(path)
            if clock.now() - info.st_mtime < identity.YOUNG or (info.st_dev, info.st_ino) in named:
                continue  # one that died between its commit and the rename is named by its row alone
            if kind == b"spare" and number.isdigit() and int(number) not in instances:
                if identity.try_shared(folder + b"/" + number + b".lock") is not True:
                    capture.discard(path)
            elif name.endswith(b".lock") and identity.abandoned(path):
                os.unlink(path)
        except OSError:
            continue  # another one was faster
