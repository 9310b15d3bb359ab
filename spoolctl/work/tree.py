"""What belongs to the tree of an attempt, and whether it is proven gone (SPEC 5).

A process belongs when it (1) is in the leader's session or group, (2) carries the attempt's token,
(3) descends from the leader or was adopted from it, or (4) holds the attempt's capture lock. A number
that a new process has taken since says nothing: then the old session is empty, for the kernel gives
no pid away that still names a session or a group.
"""

import os

from .. import clock
from ..paths import Spool, raw
from . import identity, proc, signals
from .probe import Probe


class Tree:
    """An attempt's processes as seen by anybody but its parent; `adopted` is the parent's addition.

    pid, start: the leader as recorded, None when the worker died before the record. began: seconds
    since boot of the claim; nothing older belongs.
    """

    def __init__(
        self,
        spool: Spool,
        job_id: int,
        attempt_no: int,
        pid: "int | None",
        start: "int | None",
        token: str,
        began: "float | None",
    ) -> None:
        self.spool = spool
        self.job_id = job_id
        self.attempt_no = attempt_no
        self.pid = pid
        self.start = start
        self.token = token
        self.began = int((began or 0) * proc.TICKS) - proc.TICKS  # a second of rounding and clock skew
        self.inside = False  # whether this very process belongs to the tree
        self._marked: "set[tuple[int, int]]" = set()
        self._judged: "set[tuple[int, int]]" = set()
        self.probe: "Probe | None" = None
        self._empty_since: "float | None" = None
        self.prefix = raw(f"{spool.output}/{job_id}/{attempt_no}/")

    def members(self) -> "list[proc.Stat]":
        """The live processes of the tree that are known now. Also asks for the tokens of others."""
        stats = {one.pid: one for one in proc.all_stats()}
        roots = [one for one in stats.values() if self._is_root(one, stats)]
        found = with_descendants(roots, stats)
        others = [one for one in stats.values() if one.pid not in found and self._could_belong(one)]
        for one in others:
            if (one.pid, one.start) in self._marked or proc.locks(one.pid, self.prefix):
                found[one.pid] = one
        self._ask([one for one in others if one.pid not in found])
        self.inside = os.getpid() in found
        found.pop(os.getpid(), None)
        return [one for one in found.values() if not one.gone]

    def _is_root(self, one: "proc.Stat", stats: "dict[int, proc.Stat]") -> bool:
        if self.pid is None or self.pid <= 1 or self.pid not in (one.session, one.pgrp):
            return False
        named = stats.get(self.pid)
        if named is not None and self.start is not None and named.start != self.start:
            return False  # the number was taken by a stranger: nothing of the old session is left
        return one.start >= (self.start if self.start is not None else self.began)

    def _could_belong(self, one: "proc.Stat") -> bool:
        return one.start >= self.began and not one.gone and proc.uid(one.pid) == os.geteuid()

    def _ask(self, others: "list[proc.Stat]") -> None:
        if self.probe is not None:
            answers = self.probe.poll()
            if answers is None:
                return
            for one in others:
                if one.pid in answers:
                    key = (one.pid, one.start)
                    (self._marked if answers[one.pid] == self.token else self._judged).add(key)
            self.probe = None
        unknown = [
            one.pid
            for one in others
            if (one.pid, one.start) not in self._judged
            and (one.pid, one.start) not in self._marked
            and one.state != b"D"
            and one.pid != os.getpid()
        ]
        if unknown:
            self.probe = Probe(unknown)

    def gone(self, members: "list[proc.Stat]") -> bool:
        """Whether the tree is proven gone, given what `members` just found."""
        if members or self.inside or self.probe is not None:
            self._empty_since = None
            return False
        held = identity.capture_held(self.spool, self.job_id, self.attempt_no)
        if held:
            self._empty_since = None
            return False
        if held is False or self.pid is not None:
            return True
        # No record and no lock to ask: two empty looks half a second apart.
        now = clock.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        return now - self._empty_since >= 0.5

    def signal(self, member: "proc.Stat", number: int) -> str:
        return signals.to_process(member, number)

    def signal_group(self, number: int) -> bool:
        """Only the parent may signal a group: nobody else knows whose number it is."""
        return False

    def close(self) -> None:
        if self.probe is not None:
            self.probe.close()
            self.probe = None


def with_descendants(roots: "list[proc.Stat]", stats: "dict[int, proc.Stat]") -> "dict[int, proc.Stat]":
    below: "dict[int, list[proc.Stat]]" = {}
    for one in stats.values():
        below.setdefault(one.ppid, []).append(one)
    found: "dict[int, proc.Stat]" = {}
    queue = list(roots)
    while queue:
        one = queue.pop()
        if one.pid not in found and one.pid > 1:
            found[one.pid] = one
            queue += below.get(one.pid, [])
    return found
