"""One running attempt in its worker: from the spawned leader to the outcome that is recorded."""

import os
import signal

from .. import clock
from ..store import settle
from ..store.settle import FAILURE, FREE, Outcome
from . import proc
from .ending import GONE, STUCK, Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row
    from .own_tree import OwnTree

# A leader that dies of these within a second of the worker's own stop was stopped by somebody who
# signals everybody, as service managers do: interrupted, not failed.
_STOPPERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)
HOLD = 1.0

TIMEOUT, OUTPUT_LIMIT, DISK_FULL = "timeout", "output_limit", "disk_full"
CANCEL, REQUEUE, SHUTDOWN, LEFTOVERS, LOST = "cancel", "requeue", "shutdown", "leftovers", "lost"


class Attempt:
    """`why` is the reason its tree is being ended; LEFTOVERS means the command had ended by itself."""

    def __init__(self, row: "Row", pid: int, tree: "OwnTree", worker_id: str) -> None:
        self.row = row
        self.job_id = int(row["id"])
        self.attempt_no = int(row["attempt_no"])
        self.key = (self.job_id, self.attempt_no)
        self.worker_id = worker_id
        self.tree = tree
        self.pid = pid
        self.exit_fd = open_exit(pid)
        self.started = clock.monotonic()
        timeout = row["timeout"]
        self.deadline = None if timeout is None else self.started + float(timeout)
        self.exit: "int | None" = None  # exit code, or minus the signal
        self.exited_at = 0.0
        self.exited_wall: "float | None" = None
        self.why: "str | None" = None
        self.ending: "Ending | None" = None
        self.kept = False
        self.told_stuck = False

    def leader(self) -> "Row":
        """What is written down of the leader, which can be read until it is reaped."""
        self.tree.identify()
        return {
            "job_id": self.job_id,
            "attempt_no": self.attempt_no,
            "pid": self.pid,
            "pid_start": self.tree.start,
            "session": proc.session_number(self.pid),
        }

    @property
    def max_output(self) -> "int | None":
        return self.row["max_output"]

    def poll(self) -> bool:
        """Whether the leader has ended. It stays a zombie, so that its number stays its own, where the
        system can say so much without reaping it (macOS cannot before Python 3.13)."""
        if self.exit is None:
            if hasattr(os, "waitid"):
                info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if info is None:
                    return False
                self.exit = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid == 0:
                    return False
                self.exit, self.tree.reaped = os.waitstatus_to_exitcode(status), True
            self.exited_at, self.exited_wall = clock.monotonic(), clock.now()
        return True

    def end(self, why: str, grace: float) -> None:
        """Begin to end the tree, unless that has begun. A leader that ended keeps its own outcome."""
        if self.ending is None:
            if why not in (LEFTOVERS, LOST) and self.poll():
                if why in (CANCEL, REQUEUE) and self._stopped_by_others():
                    self.why = why  # whoever asked has ended it already, for we did not answer in time
                return
            self.why = self.why or why
            self.ending = Ending(self.tree, grace)
        elif self.why == LEFTOVERS and why in (SHUTDOWN, CANCEL, REQUEUE, LOST):
            if why == LOST:
                self.why = why
            if why == SHUTDOWN:
                self.ending.hurry()

    def advance(self, stopping: bool, grace: float) -> bool:
        """Take the next step; True when the attempt is over and its tree is proven gone."""
        if self.ending is None:
            if not self.poll():
                if self.deadline is None or clock.monotonic() < self.deadline:
                    return False
                self.end(TIMEOUT, grace)
            elif self.tree.clean():
                return not self._held(stopping)
            elif self.row["keep_children"]:
                self.kept = True
                return not self._held(stopping)
            else:
                self.end(LEFTOVERS, grace)
        if self.ending is None:
            return False  # it ended by itself just before its time was up
        ended = self.exit is None and self.poll()
        if clock.monotonic() >= self.ending.at or ended:
            self.ending.step()
        return self.ending.state == GONE and self.poll() and not self._held(stopping)

    def _stopped_by_others(self) -> bool:
        return self.why in (None, LEFTOVERS) and self.exit is not None and -self.exit in _STOPPERS

    def _held(self, stopping: bool) -> bool:
        """A leader that somebody else's signal ended waits a second for ours to come."""
        return self._stopped_by_others() and not stopping and clock.monotonic() < self.exited_at + HOLD

    @property
    def stuck(self) -> bool:
        return self.ending is not None and self.ending.state == STUCK

    def next_at(self) -> "float | None":
        """When `advance` has to be called next, if nothing wakes the loop before."""
        if self.ending is not None and self.ending.state != GONE:
            return self.ending.at
        if self.exit is not None:
            return self.exited_at + HOLD if self._stopped_by_others() else clock.monotonic()
        return self.deadline

    def reap(self) -> None:
        """Let the leader's number go."""
        if not self.tree.reaped:
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass
        self.tree.adoption.forget(self.tree, self.kept)
        self.tree.files.close()
        if self.exit_fd >= 0:
            os.close(self.exit_fd)
            self.exit_fd = -1

    def outcome(self, stopping: bool) -> Outcome:
        """What is to be recorded."""
        code = self.exit
        name = signal_name(-code) if code is not None and code < 0 else None
        base: "Row" = {"exit_code": code, "signal": name, "worker_id": self.worker_id}
        if self.why == TIMEOUT:
            error = f"timed out after {self.row['timeout']}s"
            return self._made("timed_out", "timed_out", FAILURE, "timeout", error, base)
        if self.why == OUTPUT_LIMIT:
            error = f"output limit of {self.max_output} bytes"
            return self._made("failed", "failed", FAILURE, "output_limit", error, base)
        if self.why == DISK_FULL:
            return self._made("failed", "failed", FAILURE, "disk_full", "disk full", base)
        if self.why == CANCEL:
            return self._made("canceled", None, FREE, "canceled", "canceled", base)
        if self.why == REQUEUE:
            return self._made("abandoned", None, FREE, "canceled", "force-retried", base)
        if self.why == SHUTDOWN or (self._stopped_by_others() and stopping):
            return self._made("abandoned", "interrupted", FREE, "worker_shutdown", "worker stopped", base)
        left = len(self.ending.ended) if self.ending is not None else 0
        detail = f"ended {left} left processes" if left else None
        if code == 0:
            return self._made("succeeded", "succeeded", FREE, None, None, base, detail)
        error = f"signal {name}" if name else f"exit {code}"
        return self._made("failed", "failed", FAILURE, "process_exit", error, base, detail)

    def _made(
        self,
        state: str,
        event: "str | None",
        cost: str,
        reason: "str | None",
        error: "str | None",
        base: "Row",
        detail: "str | None" = None,
    ) -> Outcome:
        told = error if event in ("failed", "timed_out") else None
        text = "; ".join(part for part in (told, detail) if part) or None
        return Outcome(
            self.job_id,
            self.attempt_no,
            state,
            event,
            cost,
            reason,
            error,
            detail=text,
            # What had nothing to be ended was over when its leader was.
            ended_at=self.exited_wall if self.ending is None else None,
            **base,
        )


def open_exit(pid: int) -> int:
    """A descriptor that is readable once our child has ended; -1 where only SIGCHLD tells."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def spawn_failed(row: "Row", error: str, worker_id: str, full: bool = False) -> settle.Outcome:
    """The outcome of an attempt whose command could not be started, or whose files could not be made."""
    return Outcome(
        int(row["id"]),
        int(row["attempt_no"]),
        "failed",
        "failed",
        FAILURE,
        "disk_full" if full else "spawn_failed",
        "disk full" if full else error,
        detail="disk full" if full else error,
        worker_id=worker_id,
    )
