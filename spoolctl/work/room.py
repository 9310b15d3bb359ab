"""What an attempt may write: its own limit, and the room left on the device (SPEC 5)."""

import os

from .. import clock
from ..contract.limits import DISK_EVERY, OUTPUT_EVERY
from ..paths import Spool, raw
from . import capture
from .attempt import DISK_FULL, OUTPUT_LIMIT, Attempt

LEAST = 65_536  # bytes left that count as none


def full(spool: Spool) -> bool:
    """Whether there is no room left beside the output."""
    try:
        room = os.statvfs(raw(os.path.dirname(spool.db)))
    except OSError:
        return False
    blocks = room.f_bfree if os.geteuid() == 0 else room.f_bavail
    return blocks * room.f_frsize < LEAST


class Room:
    """Watches the running attempts; ends the one that goes past its limit, or the largest on a full disk."""

    def __init__(self, spool: Spool, grace: float) -> None:
        self.spool = spool
        self.grace = grace
        self._output_at = 0.0
        self._disk_at = 0.0

    def watch(self, running: "list[Attempt]") -> None:
        now = clock.monotonic()
        if now >= self._output_at:
            self._output_at = now + OUTPUT_EVERY
            for one in running:
                if one.max_output is not None and one.ending is None and self.size(one) > one.max_output:
                    one.end(OUTPUT_LIMIT, self.grace)
        if now >= self._disk_at:
            self._disk_at = now + DISK_EVERY
            if full(self.spool):
                going = [one for one in running if one.ending is None]
                if going:
                    max(going, key=self.size).end(DISK_FULL, self.grace)

    def size(self, one: Attempt) -> int:
        return capture.sizes(self.spool, one.job_id, one.attempt_no)

    def next_at(self, running: "list[Attempt]") -> "float | None":
        if any(one.max_output is not None for one in running):
            return self._output_at
        return self._disk_at if running else None

    def over(self, one: Attempt) -> None:
        """A command that failed just now: was it for want of room?"""
        if one.why is None and one.exit and full(self.spool):
            one.why = DISK_FULL
