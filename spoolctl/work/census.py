"""Whose token the processes of this machine carry, asked once for all the trees that want to know.

Each helper that asks is itself a new process, which the other workers have to ask about in their turn:
with one for every tree and look, workers that reap at the same time would keep each other from a proof.
"""

from .. import clock
from .probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    Key = tuple[int, int]  # pid and start time


class Census:
    """The answers so far. An answer counts for a tree only when it was asked after that tree was made: a
    process that is about to exec may still show the environment of whoever started it."""

    def __init__(self) -> None:
        self._answers: "dict[Key, tuple[str, float]]" = {}
        self._wanted: "set[Key]" = set()
        self.carriers: "dict[str, set[Key]]" = {}  # who carried a token, of those the latest helper met
        self._asking: "set[Key]" = set()
        self._asked_at = 0.0
        self._probe: "Probe | None" = None
        self._askers: "set[object]" = set()

    def answer(self, key: "Key", since: float) -> "str | None":
        """The token the process carried, '-' for none; None when nobody answered since."""
        token, asked_at = self._answers.get(key, (None, 0.0))
        return token if asked_at >= since else None

    def want(self, asker: object, keys: "set[Key]", since: float) -> None:
        """Ask for these, unless they are being asked for."""
        self._askers.add(asker)
        if self._probe is not None and self._asked_at >= since:
            keys = keys - self._asking
        self._wanted |= keys
        self.hear()

    def hear(self) -> None:
        """Take in what was answered; ask what is wanted next."""
        if self._probe is not None:
            answers = self._probe.poll()
            if answers is None:
                return
            met, self._probe = self._probe.met, None
            for pid, start, token in met:
                if token != "-":
                    self.carriers.setdefault(token, set()).add((pid, start))
            for key in self._asking:
                if key[0] in answers:
                    self._answers[key] = (answers[key[0]], self._asked_at)
                    if answers[key[0]] != "-":
                        self.carriers.setdefault(answers[key[0]], set()).add(key)
        if self._wanted:
            self._asking, self._wanted = self._wanted, set()
            self._asked_at = clock.monotonic()
            self._probe = Probe([pid for pid, _ in self._asking], others=True)

    def forget_all_but(self, living: "set[Key]") -> None:
        """Those that have ended; once in a while is enough. A tree may be stuck for months."""
        if len(self._answers) > 2 * len(living) + 100:
            self._answers = {key: said for key, said in self._answers.items() if key in living}
        if len(self.carriers) > 2 * len(living) + 100:  # most of attempts that nobody here asks about
            self.carriers = {token: left for token, keys in self.carriers.items() if (left := keys & living)}

    def leave(self, asker: object) -> None:
        """This one wants nothing more; with the last, everything is forgotten."""
        self._askers.discard(asker)
        if self._askers:
            return
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        self._answers.clear()
        self.carriers.clear()
        self._wanted = set()


CENSUS = Census()
