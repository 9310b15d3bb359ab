"""The children of a worker, which is a child subreaper: whatever a command left behind becomes one of them,
and is told by whose it is.
"""

import os
import sys

from ..paths import Spool, raw
from . import proc
from .probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .own_tree import OwnTree

PR_SET_CHILD_SUBREAPER = 36
KEPT = 10_000  # tokens of attempts with kept children that are remembered
ASKS = 3  # times that somebody is asked for whose helper gave no answer in its time
READS = 20  # of the list of children, for one on which nobody has just ended
M_TRIM_THRESHOLD, M_TOP_PAD = -1, -2  # of glibc's mallopt


def become_subreaper() -> bool:
    """Ask the kernel for orphans of this process's descendants; False where it cannot (macOS)."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "mallopt"):
        # An UPDATE with a trigger takes 170 KB and gives them back, several times a transaction: keep
        # them, instead of asking the kernel for fresh pages each time (3 % of a short job).
        libc.mallopt(M_TRIM_THRESHOLD, 4 << 20)
        libc.mallopt(M_TOP_PAD, 1 << 20)
    return libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


class Adoption:
    """Who our children are: leaders, helpers of our own, and adopted processes with their attempt."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._list = proc.ChildList.open()
        self.leaders: "dict[int, OwnTree]" = {}
        self.kept_sessions: "set[int]" = set()
        self.kept_any = False  # from then on a stranger among our children may be a kept one's child
        self.owners: "dict[tuple[int, int], OwnTree | None]" = {}  # adopted -> its attempt, None: kept
        self.shared: "dict[tuple[int, int], set[OwnTree]]" = {}  # tied to no single attempt
        self.sure = True
        self._kept_tokens: "dict[str, None]" = {}  # the latest, oldest first
        self._probe: "Probe | None" = None
        self._asked: "set[tuple[int, int]]" = set()  # of those in `shared`, by the probe under way
        self._unasked: "set[tuple[int, int]]" = set()
        self._asks: "dict[tuple[int, int], int]" = {}

    def children(self) -> "list[int]":
        """Our direct children, zombies too."""
        if self._list is not None:
            return self._list.read()
        me = os.getpid()
        return [one.pid for one in proc.all_stats() if one.ppid == me]

    def refresh(self) -> None:
        """Take in new adopted children and reap those that ended.

        Whoever ended may have left us children since the list was read, so it is read again until nobody
        on it has ended: only then is what was seen all there is (`sure`).
        """
        for _ in range(READS):
            self.sure = self._read()
            if self.sure:
                break
        self._hear()

    def _read(self) -> bool:
        """One reading of the list; whether everybody on it lives. An entry stays until we reap it."""
        complete = True
        for pid in self.children():
            if pid in self.leaders or pid in Probe.helpers:
                continue
            one = proc.stat(pid)
            if one is None:
                continue  # hidden from us: nothing can be told of it
            if one.gone:
                self._reap(one)
                complete = False
            elif (one.pid, one.start) not in self.owners and (one.pid, one.start) not in self.shared:
                self._attribute(one)
        return complete

    def _reap(self, one: "proc.Stat") -> None:
        try:
            os.waitpid(one.pid, os.WNOHANG)
        except ChildProcessError:
            pass
        self.owners.pop((one.pid, one.start), None)
        self.shared.pop((one.pid, one.start), None)

    def _attribute(self, one: "proc.Stat") -> None:
        """By session, by capture lock, because there is but one attempt, and last by token."""
        key = (one.pid, one.start)
        if one.session in self.leaders:
            self.owners[key] = self.leaders[one.session]
            return
        if one.session in self.kept_sessions:
            self.owners[key] = None
            return
        for tree in self.leaders.values():
            if key in tree.known:  # it was a descendant before whoever stood between had gone
                self.owners[key] = tree
                return
        held = proc.locks(one.pid, raw(self.spool.output) + b"/")
        if held:
            for tree in self.leaders.values():
                if any(path.startswith(tree.prefix) for path in held):
                    self.owners[key] = tree
                    return
        if len(self.leaders) == 1 and not self.kept_any:
            self.owners[key] = next(iter(self.leaders.values()))
            return
        trees = {tree for tree in self.leaders.values() if tree.start_ticks <= one.start}
        if trees:
            self.shared[key] = trees
            self._unasked.add(key)
        else:
            self.owners[key] = None  # older than every attempt: what a kept one left

    def _hear(self) -> None:
        if self._probe is not None:
            answers = self._probe.poll()
            if answers is None:
                return
            asked, self._asked = self._asked, set()
            cut, self._probe = self._probe.cut, None
            tokens = {tree.token: tree for tree in self.leaders.values()}
            for key in [key for key in self.shared if key[0] in answers]:
                token = answers[key[0]]
                if token in tokens:
                    self.owners[key] = tokens[token]
                    del self.shared[key]
                elif token in self._kept_tokens:
                    self.owners[key] = None
                    del self.shared[key]
            self._asks = {key: n for key, n in self._asks.items() if key in self.shared}
            if cut:  # a slow machine, or one of them cannot be read without waiting
                self._unasked |= {
                    key for key in asked if self._asks.get(key, ASKS) < ASKS and key[0] not in answers
                }
        if self._unasked:
            for key in self._unasked:
                self._asks[key] = self._asks.get(key, 0) + 1
            self._probe = Probe(sorted(pid for pid, _ in self._unasked))
            self._asked, self._unasked = self._unasked, set()

    def of(self, tree: "OwnTree", stats: "dict[int, proc.Stat]") -> "list[proc.Stat]":
        """The adopted processes that an attempt has to end: its own, and shared ones it is the last of,
        unless their token is still being asked for."""
        mine = self.keys_of(tree)
        return [stats[pid] for pid, start in mine if pid in stats and stats[pid].start == start]

    def keys_of(self, tree: "OwnTree") -> "list[tuple[int, int]]":
        """(pid, start) of the same, as of the last `refresh`."""
        mine = [key for key, owner in self.owners.items() if owner is tree]
        open_ = self._asked | self._unasked
        mine += [
            key
            for key, trees in self.shared.items()
            if key not in open_ and (trees <= {tree} or not trees & set(self.leaders.values()))
        ]
        return mine

    def undecided(self, tree: "OwnTree") -> bool:
        """Whether the owner of something adopted is still being asked for."""
        return self._probe is not None and any(tree in trees for trees in self.shared.values())

    def forget(self, tree: "OwnTree", kept: bool) -> None:
        """An attempt is over; what it leaves with --keep-children is nobody's from now on."""
        self.leaders.pop(tree.pid, None)
        if kept:
            self.kept_any = True
            self.kept_sessions.add(tree.pid)
            self._kept_tokens[tree.token] = None
            if len(self._kept_tokens) > KEPT:
                del self._kept_tokens[next(iter(self._kept_tokens))]
        for key, owner in list(self.owners.items()):
            if owner is tree:
                self.owners[key] = None
        for key, trees in list(self.shared.items()):
            trees.discard(tree)
            if not trees:  # only kept ones are left that it can come from
                self.owners[key] = None
                del self.shared[key]

    def tidy(self) -> None:
        """Once in a while: what was kept may have ended."""
        self.refresh()
        if self.kept_sessions:
            alive = {one.session for one in proc.all_stats()}
            self.kept_sessions &= alive
