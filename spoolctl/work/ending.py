"""Ending a tree, as a state machine that never sleeps: TERM and CONT, grace, KILL, proof (SPEC 5).

One code path for timeout, cancel, retry --force, limits, shutdown, leftovers and reaping. What is not
gone two seconds after KILL is STUCK: it is looked at every second, and never called ended.
"""

import signal

from .. import clock
from ..contract.limits import AFTER_KILL, UNPROVEN
from . import proc, signals
from .scene import Scene

ENDING, GONE, STUCK = "ending", "gone", "stuck"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tree import Tree


class Ending:
    """The end of one tree. `step` when `at` is reached; `pids` and `why` tell of what is stuck.

    unproven: seconds after KILL in which a tree of which nobody is seen may lack its proof.
    """

    def __init__(self, tree: "Tree", grace: float, unproven: float = UNPROVEN) -> None:
        self.tree = tree
        self.unproven = unproven
        self.started = clock.monotonic()
        self.kill_at = self.started + grace
        self.killed_at: "float | None" = None  # when KILL was first sent: late, if we were stopped or busy
        self.at = self.started
        self.state = ENDING
        self.pids: "list[int]" = []
        self.why = "uninterruptible"
        self.ended: "set[tuple[int, int]]" = set()  # whom we signalled
        self._termed: "set[tuple[int, int]]" = set()
        self._pause = 0.002

    def hurry(self) -> None:
        """No more grace: KILL at the next step."""
        self.kill_at = min(self.kill_at, clock.monotonic())
        self.at = clock.monotonic()

    def step(self, scene: "Scene | None" = None) -> str:
        """Look, signal, and answer ENDING, GONE or STUCK. A scene must be younger than the last step."""
        members = self.tree.members(scene or Scene())
        now = clock.monotonic()
        if self.tree.gone(members):
            self.tree.close()
            self.state = GONE
            return GONE
        if self.tree.inside:  # it would be ourselves that we end: others do that
            self.at = now + 1.0
            return self.state
        if now >= self.kill_at and self.killed_at is None:
            self.killed_at = now
        denied = False
        self._signal_group(members, now)
        for member in members:
            denied |= self._signal(member, now) == signals.DENIED
        self.pids = [member.pid for member in members] or self.tree.unanswered()
        self.why = "not_permitted" if denied else "uninterruptible"
        patience = AFTER_KILL if members or not self.tree.unseen() else self.unproven
        if self.killed_at is not None and now >= self.killed_at + patience:
            self.state = STUCK
            self.at = now + 1.0
        else:
            self._pause = min(self._pause * 2, 0.1)
            self.at = now + (self._pause if members or not self.tree.close_to_proof else 0.002)
            if now < self.kill_at:
                self.at = min(self.at, self.kill_at)
        return self.state

    def _signal_group(self, members: "list[proc.Stat]", now: float) -> None:
        """The parent reaches its leader's group at once, before anyone in it can fork away."""
        if now >= self.kill_at:
            self.tree.signal_group(signal.SIGKILL)
            self.ended |= self.tree.strike()
        elif not self._termed and self.tree.signal_group(signal.SIGTERM):
            self.tree.signal_group(signal.SIGCONT)
            group = {(one.pid, one.start) for one in members if one.pgrp == self.tree.pid}
            self._termed |= group
            self.ended |= group

    def _signal(self, member: "proc.Stat", now: float) -> str:
        key = (member.pid, member.start)
        self.ended.add(key)
        if now >= self.kill_at:
            return self.tree.signal(member, signal.SIGKILL)
        if key in self._termed:
            return signals.SENT
        self._termed.add(key)
        answer = self.tree.signal(member, signal.SIGTERM)
        self.tree.signal(member, signal.SIGCONT)  # a stopped process must be able to obey
        return answer
