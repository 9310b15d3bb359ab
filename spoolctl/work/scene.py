"""One look at all processes of the machine, shared by every tree that is stepped in the same pass.

A scene may be used by a tree only if it was taken after that tree's last signals.
"""

import os

from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Scene:
    """`stats`: every process by its pid; `sessions`, `below`: by session and by parent; `living`: the
    pid and start of those that are not gone."""

    def __init__(self) -> None:
        self.stats = {one.pid: one for one in proc.all_stats()}
        self.sessions: "dict[int, list[proc.Stat]]" = {}
        self.below: "dict[int, list[proc.Stat]]" = {}
        for one in self.stats.values():
            self.sessions.setdefault(one.session, []).append(one)
            self.below.setdefault(one.ppid, []).append(one)
        self.living = {(one.pid, one.start) for one in self.stats.values() if not one.gone}
        self._ours: "dict[int, bool]" = {}
        self._locks: "dict[int, list[bytes]]" = {}

    def ours_since(self, began: float) -> "list[proc.Stat]":
        """Live processes of our user that started at or after `began` (ticks)."""
        return [
            one for one in self.stats.values() if one.start >= began and not one.gone and self._mine(one.pid)
        ]

    def _mine(self, pid: int) -> bool:
        if pid not in self._ours:
            self._ours[pid] = proc.uid(pid) == os.geteuid()
        return self._ours[pid]

    def holds(self, pid: int, output: bytes, prefix: bytes) -> bool:
        """Whether the process holds an exclusive flock on a file under `prefix`, which is under `output`."""
        if pid not in self._locks:
            self._locks[pid] = proc.locks(pid, output)
        return any(path.startswith(prefix) for path in self._locks[pid])

    def with_descendants(self, roots: "Iterable[proc.Stat]") -> "dict[int, proc.Stat]":
        """By pid. A child is never older: else its parent left during the look, and its number was taken."""
        found: "dict[int, proc.Stat]" = {}
        queue = list(roots)
        while queue:
            one = queue.pop()
            if one.pid not in found and one.pid > 1:
                found[one.pid] = one
                queue += [child for child in self.below.get(one.pid, []) if child.start >= one.start]
        return found
