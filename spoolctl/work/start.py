"""From a claimed row to a running attempt: files, command, identity."""

import errno

from .. import hooks
from ..paths import Spool
from ..store.settle import FREE, Outcome
from . import capture
from .adoption import Adoption, become_subreaper
from .attempt import Attempt, spawn_failed
from .own_tree import OwnTree
from .spawn import TRANSIENT, Spawner, SpawnFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Starter:
    """Starts commands for one worker. Made at the first claim: an idle worker loads none of this."""

    def __init__(self, spool: Spool, environ: "dict[str, str]", worker_id: str) -> None:
        import _posixsubprocess  # noqa: F401 - with the next, loaded while there are descriptors for it
        import json  # noqa: F401

        self.spool = spool
        self.captures = capture.Captures(spool)
        self.worker_id = worker_id
        self.subreaper = become_subreaper()
        self.adoption = Adoption(spool)
        self.spawner = Spawner(spool, environ)

    def start(self, row: "Row", began: float) -> "Attempt | Outcome":
        """The running attempt, or the outcome of one that could not be started."""
        job_id, attempt_no = int(row["id"]), int(row["attempt_no"])
        hooks.at("claimed")
        try:
            files = self.captures.open(job_id, attempt_no)
        except OSError as error:
            if error.errno in TRANSIENT:
                return given_back(row, self.worker_id)
            path = self.spool.stream(job_id, attempt_no, "stdout")
            name = error.filename.decode("utf-8", "replace") if isinstance(error.filename, bytes) else path
            text = f"spawn failed: [Errno {error.errno}] {error.strerror}: {name!r}"
            return spawn_failed(row, text, self.worker_id, error.errno in _FULL)
        hooks.at("files made")
        try:
            pid = self.spawner.start(row, *files.fds)
        except SpawnFailed as failed:
            files.close()
            if failed.transient:
                return given_back(row, self.worker_id)
            return spawn_failed(row, str(failed), self.worker_id)
        files.handed_over()
        hooks.at("spawned")
        tree = OwnTree(
            self.spool, job_id, attempt_no, pid, str(row["token"]), began, self.adoption, files,
            self.subreaper,
        )  # fmt: skip
        return Attempt(row, pid, tree, self.worker_id)

    def close(self) -> None:
        self.captures.close()
        self.spawner.close()


def given_back(row: "Row", worker_id: str) -> Outcome:
    """The outcome of a claimed job that this worker will not run: queued at once, no budget spent."""
    return Outcome(
        int(row["id"]),
        int(row["attempt_no"]),
        "abandoned",
        "interrupted",
        FREE,
        "worker_shutdown",
        "worker stopped",
        worker_id=worker_id,
    )
