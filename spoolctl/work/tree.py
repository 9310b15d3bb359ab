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

APART = 0.5  # seconds between two looks that stand for a proof


class Tree:
    """An attempt's processes as seen by anybody but its parent; `adopted` is the parent's addition.

    pid, start: the leader as recorded, None when the worker died before the record. began: seconds
    since boot of the claim; nothing older belongs. own_token: the one this process carries itself.
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
        own_token: "str | None" = None,
    ) -> None:
        self.spool = spool
        self.job_id = job_id
        self.attempt_no = attempt_no
        self.pid = pid
        self.start = start
        self.token = token
        self.began = int((began or 0) * proc.TICKS) - proc.TICKS  # a second of rounding and clock skew
        self._ours = own_token == token
        self.inside = self._ours  # whether this very process belongs to the tree
        self._marked: "set[tuple[int, int]]" = set()
        self._judged: "set[tuple[int, int]]" = set()
        self.probe: "Probe | None" = None
        self._asking: "list[tuple[int, int]]" = []
        self._asks_all = False
        self._whole_since: "float | None" = None
        self._sure = False  # no process that was seen can be an unknown member
        self._empty_since: "float | None" = None
        self.prefix = raw(f"{spool.output}/{job_id}/{attempt_no}/")

    def members(self) -> "list[proc.Stat]":
        """The live processes of the tree that are known now. Also asks for the tokens of others."""
        whole = self._hear()
        stats = {one.pid: one for one in proc.all_stats()}
        own = [one for one in stats.values() if self._is_root(one, stats)]
        known = {one.pid for one in own}
        others = [one for one in stats.values() if one.pid not in known and self._could_belong(one)]
        own += [
            one for one in others if (one.pid, one.start) in self._marked or proc.locks(one.pid, self.prefix)
        ]
        found = with_descendants(own, stats)
        self._ask([one for one in others if one.pid not in found], whole)
        self.inside = self._ours or os.getpid() in found
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

    def _hear(self) -> bool:
        """Take in the answers; True when everybody of one look has answered. Before the next look, which
        then shows as members those who were found out."""
        answers = self.probe.poll() if self.probe is not None else None
        if answers is None:
            return False
        self.probe = None
        for key in self._asking:
            if key[0] in answers:
                (self._marked if answers[key[0]] == self.token else self._judged).add(key)
        return self._asks_all and all(pid in answers for pid, _ in self._asking)

    def _ask(self, others: "list[proc.Stat]", whole: bool) -> None:
        """Sure is who has judged everybody, or, where new processes come all the time, everybody of two
        looks half a second apart: who came since descends from those."""
        unknown = [
            one for one in others if (one.pid, one.start) not in self._judged and one.pid != os.getpid()
        ]
        now = clock.monotonic()
        if not unknown or not proc.TOKENS:
            self._sure = True
            return
        if whole:
            if self._whole_since is None:
                self._whole_since = now
            self._sure = self._sure or now - self._whole_since >= APART
        if self.probe is None:
            # Reading the environment of a process in state D may block: it is asked when it has left it.
            self._asking = [(one.pid, one.start) for one in unknown if one.state != b"D"]
            self._asks_all = len(self._asking) == len(unknown)
            if self._asking:
                self.probe = Probe([pid for pid, _ in self._asking])

    def gone(self, members: "list[proc.Stat]") -> bool:
        """Whether the tree is proven gone, given what `members` just found."""
        if members or self.inside:
            self._sure = False
            self._whole_since = self._empty_since = None
            return False
        if not self._sure:
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
        return now - self._empty_since >= APART

    def signal(self, member: "proc.Stat", number: int) -> str:
        return signals.to_process(member, number)

    def signal_group(self, number: int) -> bool:
        """Only the parent may signal a group: nobody else knows whose number it is."""
        return False

    def strike(self) -> "set[tuple[int, int]]":
        """KILL each at the moment it is seen, for those that fork and leave before a scan has ended.
        Only the parent can: they come to it. Returns (pid, start) of each."""
        return set()

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
