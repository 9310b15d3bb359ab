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
from .census import CENSUS
from .probe import Probe
from .scene import Scene

APART = 0.5  # seconds between two looks that stand for a proof
AT_ONCE = 2  # rounds of questions, before newcomers wait for the second look


class Tree:
    """An attempt's processes as seen by anybody but its parent; `adopted` is the parent's addition.

    pid, start: the leader as recorded, None when the worker died before the record. began: seconds
    since boot of the claim; nothing older belongs. session: the number that its session alone has.
    own_token: the one this process carries itself.
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
        session: "int | None" = None,
        own_token: "str | None" = None,
    ) -> None:
        self.spool = spool
        self.job_id = job_id
        self.attempt_no = attempt_no
        self.pid = pid
        self.start = start
        self.token = token
        self.began = int((began or 0) * proc.TICKS) - proc.TICKS  # a second of rounding and clock skew
        # Sessions of the tree by their leader, with its start and the number that no other session has:
        # nobody else can come into one that a member made. More than the command's own, for a dead worker
        # may not have written that down.
        self._sessions: "dict[int, tuple[int | None, int | None]]" = {}
        if pid is not None and pid > 1:
            self._sessions[pid] = (start, session)
        self._ours = own_token == token
        self.inside = self._ours  # whether this very process belongs to the tree
        self._marked: "set[tuple[int, int]]" = set()
        self._judged: "set[tuple[int, int]]" = set()
        self._born = clock.monotonic()
        self._round: "set[tuple[int, int]]" = set()  # of one look, those neither judged nor gone by now
        self._rounds = 0
        self._next_round_at = 0.0
        self._judged_at: "float | None" = None  # when everybody of the first look was
        self._left = False  # a member was there between the looks
        self._looked_again = False  # nobody was seen at the last look either
        self.close_to_proof = False  # and there is but one look to go
        self._ending = False  # members were seen at the last look
        self._sure = False  # no process that was seen can be an unknown member
        self._empty_since: "float | None" = None
        self._output = raw(spool.output) + b"/"
        self.prefix = raw(f"{spool.output}/{job_id}/{attempt_no}/")

    def members(self, scene: Scene) -> "list[proc.Stat]":
        """The live processes of the tree that are known now. Also asks for the tokens of others.

        Once a member, always one: whoever stood between may have gone, and a token may be dropped.
        """
        CENSUS.hear()
        stats = scene.stats
        carriers = CENSUS.carriers.pop(self.token, set())
        if carriers - scene.living:  # they have left: whom did they leave behind?
            self._left = True
        self._marked = (self._marked | carriers) & scene.living
        self._judged &= scene.living
        CENSUS.forget_all_but(scene.living)
        own = [
            one
            for number in self._sessions
            for one in scene.sessions.get(number, ())
            if self._is_root(one, stats)
        ]
        own += [stats[pid] for pid, _ in self._marked]
        known = {one.pid for one in own}
        others = [one for one in scene.ours_since(self.began) if one.pid not in known]
        self._judge(others)
        own += [
            one for one in others
            if (one.pid, one.start) in self._marked or scene.holds(one.pid, self._output, self.prefix)
        ]  # fmt: skip
        found = scene.with_descendants(own)
        self._marked |= {(one.pid, one.start) for one in found.values()}
        self._ask([one for one in others if one.pid not in found])
        for one in found.values():
            if one.pid == one.session and one.pid not in self._sessions:
                self._sessions[one.pid] = (one.start, proc.session_number(one.pid))
        self.inside = self._ours or os.getpid() in found
        found.pop(os.getpid(), None)
        return [one for one in found.values() if not one.gone]

    def _is_root(self, one: "proc.Stat", stats: "dict[int, proc.Stat]") -> bool:
        # A group lies within one session: in another, it only has the number of ours.
        if one.session not in self._sessions:
            return False
        start, number = self._sessions[one.session]
        named = stats.get(one.session)
        if named is not None and start is not None:
            return named.start == start  # taken by a stranger, nothing of the old session is left
        if one.start < (start if start is not None else self.began):
            return False
        # Without its leader, the session may be one that somebody began under the same number since.
        seen = proc.session_number(one.pid) if number is not None else None
        return seen is None or seen == number

    def _judge(self, others: "list[proc.Stat]") -> None:
        for one in others:
            key = (one.pid, one.start)
            if key not in self._marked and key not in self._judged:
                token = CENSUS.answer(key, self._born)
                if token is not None:
                    (self._marked if token == self.token else self._judged).add(key)

    def _ask(self, others: "list[proc.Stat]") -> None:
        """Sure is who has judged everybody, or, where new processes come all the time, everybody of two
        looks half a second apart: who came since descends from those. Those of one look are judged when
        they can be: on a busy disk somebody is in state D at every look, but nobody for long."""
        unknown = {(one.pid, one.start): one for one in others if not self._is_known(one)}
        if not unknown or not proc.TOKENS:
            self._sure = True
            return
        now = clock.monotonic()
        asked = bool(self._round)
        self._round &= unknown.keys()
        if asked and not self._round:
            if self._judged_at is None:
                self._judged_at = now
            self._sure = self._sure or now - self._judged_at >= APART
            if self._rounds >= AT_ONCE:
                self._next_round_at = now + APART if self._sure else max(now, self._judged_at + APART)
        if not self._round and now >= self._next_round_at:
            self._round = set(unknown)
            self._rounds += 1
        # Reading the environment of a process in state D may block: it is asked when it has left it.
        wanted = {key for key in self._round if unknown[key].state != b"D"}
        if wanted:
            CENSUS.want(self, wanted, self._born)

    def _is_known(self, one: "proc.Stat") -> bool:
        """Whether it is judged, or is ourselves or a helper of ours."""
        return (one.pid, one.start) in self._judged or one.pid == os.getpid() or one.pid in Probe.helpers

    def gone(self, members: "list[proc.Stat]") -> bool:
        """Whether the tree is proven gone, given what `members` just found."""
        self.close_to_proof = False
        if members or self.inside or self._left:
            self._ending, self._sure, self._left, self._looked_again = True, False, False, False
            self._judged_at = self._empty_since = None
            return False
        if self._ending:  # from now on there is something to prove: ask at once again
            self._ending, self._round, self._rounds, self._next_round_at = False, set(), 0, 0.0
        if not self._sure:
            return False
        held = identity.capture_held(self.spool, self.job_id, self.attempt_no)
        if held:
            self._empty_since = None
            return False
        if not self._looked_again:
            # A member that leaves while it is looked for leaves one behind who came too late to be seen.
            self._looked_again = self.close_to_proof = True
            return False
        if held is False or self.pid is not None:
            return True
        # No record and no lock to ask: two empty looks half a second apart.
        now = clock.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        return now - self._empty_since >= APART

    def unanswered(self) -> "list[int]":
        """Those of whom it is not known whether they belong."""
        return sorted(pid for pid, _ in self._round)

    def unseen(self) -> bool:
        """Whether nothing speaks for anybody being left when nobody was seen: only the proof is missing."""
        return not self.inside and not identity.capture_held(self.spool, self.job_id, self.attempt_no)

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
        CENSUS.leave(self)
