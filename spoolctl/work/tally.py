"""What a worker did: the numbers of its answer, and one line an attempt for people."""

from ..store.settle import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.db import Row

RESULTS = {"succeeded": "succeeded", "failed": "failed", "timed_out": "timed_out", "canceled": "canceled"}


class Tally:
    """Counts recorded outcomes. `say` takes a line and must not wait; a line it drops is counted."""

    def __init__(self, say: "Callable[[str], bool]") -> None:
        self._say = say
        self.dropped = 0
        self.executed = self.succeeded = self.failed = self.dead = 0
        self.last: "Row | None" = None

    def record(self, outcome: Outcome, job_state: "str | None", seconds: float) -> None:
        """An outcome was settled with this next state of the job, None when it was refused."""
        result = RESULTS.get(outcome.state, "interrupted")
        if job_state is None:
            result = "lost"
            self.say(
                f"job {outcome.job_id} attempt {outcome.attempt_no} is not ours any more: result dropped"
            )
        else:
            self.executed += 1
            self.succeeded += result == "succeeded"
            self.failed += result in ("failed", "timed_out")
            self.dead += job_state == "dead"
            told = f" ({outcome.error})" if outcome.error else ""
            what = f"job {outcome.job_id} attempt {outcome.attempt_no} {result}{told}"
            self.say(f"{what} in {seconds:.1f}s: {job_state}")
        self.last = {
            "claimed": True,
            "job_id": outcome.job_id,
            "attempt_no": outcome.attempt_no,
            "result": result,
            "job_state": job_state,
        }

    def say(self, line: str) -> None:
        """Tell people, if they listen."""
        if self.dropped:
            line = f"({self.dropped} lines dropped) {line}"
        if self._say(line):
            self.dropped = 0
        else:
            self.dropped += 1
