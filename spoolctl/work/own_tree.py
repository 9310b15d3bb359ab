"""The tree of an attempt whose leader is our child: what its parent knows of it beyond what anybody sees.

Every living descendant hangs below an adopted child, or below the leader, so one look at the list of
direct children tells whether anything is left of a command that ended, with no scan.
"""

import os
import signal

from ..paths import Spool
from . import proc, signals
from .adoption import READS, Adoption
from .capture import Capture
from .probe import Probe
from .scene import Scene
from .tree import Tree


class OwnTree(Tree):
    """The tree of an attempt whose leader is our child, and unreaped until the tree is gone."""

    pid: int

    def __init__(
        self, spool: Spool, job_id: int, attempt_no: int, pid: int, token: str, began: float,
        adoption: Adoption, files: Capture, subreaper: bool,
    ) -> None:  # fmt: skip
        super().__init__(spool, job_id, attempt_no, pid, None, token, began)
        self.adoption = adoption
        self.files = files
        self.subreaper = subreaper
        self.reaped = False  # the leader's number is no longer its own
        self.known: "set[tuple[int, int]]" = set()  # found at some look, and still there
        self._identified = False
        adoption.leaders[pid] = self
        if not subreaper:
            self.identify()

    def identify(self) -> None:
        """Read when the leader started, which can be done until it is reaped. A command that soon ends and
        leaves nothing is never asked: while many start it takes longer than all else of a start together."""
        if not self._identified:
            self._identified = True
            seen = proc.stat(self.pid)
            if seen is not None:
                self.start = seen.start
                self._sessions[self.pid] = (seen.start, None)

    @property
    def start_ticks(self) -> int:
        """When the leader started at the earliest, in ticks."""
        self.identify()
        return self.began if self.start is None else self.start

    def clean(self) -> bool:
        """After the leader's end: whether nothing is left, told without a scan."""
        adoption = self.adoption
        if self.subreaper and any(
            pid not in adoption.leaders and pid not in Probe.helpers for pid in adoption.children()
        ):
            adoption.refresh()
            if not adoption.sure or any(owner is self for owner in adoption.owners.values()):
                return False
            if any(self in trees for trees in adoption.shared.values()):
                return False
        return not self.files.held()

    def signal_group(self, number: int) -> bool:
        return not self.reaped and signals.to_group(self.pid, number) == signals.SENT

    def strike(self) -> "set[tuple[int, int]]":
        struck: "set[tuple[int, int]]" = set()
        for _ in range(READS if self.subreaper else 0):
            self.adoption.refresh()
            mine = self.adoption.keys_of(self)
            if self.adoption.sure and not mine:
                break
            for key in mine:
                one = proc.stat(key[0])
                if one is None or one.start != key[1]:
                    continue
                if signals.to_process(one, signal.SIGKILL) == signals.SENT:
                    struck.add(key)
        return struck

    def members(self, scene: Scene) -> "list[proc.Stat]":
        if not self.subreaper:
            return super().members(scene)
        self.adoption.refresh()
        stats = scene.stats
        roots = [one for one in stats.values() if self.pid in (one.session, one.pgrp)]
        found = scene.with_descendants(roots + self.adoption.of(self, stats))
        if not any(not one.gone for one in found.values()) and self.files.held():
            # Somebody no descendant was given a capture file, and with it the lock.
            found = {
                one.pid: one
                for one in stats.values()
                if one.start >= self.began and not one.gone and proc.locks(one.pid, self.prefix)
            }
        found.pop(os.getpid(), None)
        self.known = (self.known & scene.living) | {(one.pid, one.start) for one in found.values()}
        return [one for one in found.values() if not one.gone]

    def unanswered(self) -> "list[int]":
        return [] if self.subreaper else super().unanswered()

    def unseen(self) -> bool:
        return not self.files.held() if self.subreaper else super().unseen()

    def gone(self, members: "list[proc.Stat]") -> bool:
        if not self.subreaper:
            return super().gone(members)
        if members:
            return False
        # One that was too quick for the scan is still on the list, or has left somebody who is.
        self.adoption.refresh()
        if not self.adoption.sure or self.adoption.keys_of(self) or self.adoption.undecided(self):
            return False
        return not self.files.held()
