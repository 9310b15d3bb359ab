"""Every error and warning code, its exit status and its meaning.

The code alone decides the exit status: no call site passes one. `SpoolctlError` is the only
exception that crosses layers.
"""

# Exit statuses: (meaning, retryable).
EXITS: "dict[int, tuple[str, bool | None]]" = {
    0: ("success, empty results too", False),
    1: ("user input", False),
    2: ("refused without confirmation, or unsafe", False),
    3: ("environment or tool fault", None),
    4: ("transient", True),
    5: ("state changed underneath", False),
    6: ("an awaited job ended without success", False),
}

EXIT_UNSUCCESSFUL = 6
EXIT_NOT_READY = 3  # of `doctor`: an answer, not an error

# Error codes: (exit status, meaning).
ERRORS = {
    "INVALID_INPUT": (1, "a value, flag combination or argument is not acceptable"),
    "MISSING_REQUIRED": (1, "a required flag or argument was not given"),
    "NOT_FOUND": (1, "no job, attempt or key of that name"),
    "UNKNOWN_COMMAND": (1, "no such verb"),
    "UNKNOWN_FLAG": (1, "the verb has no such flag"),
    "SAFETY_BLOCK": (2, "refused without confirmation, or unsafe"),
    "DB_INVALID": (3, "not a spoolctl database, damaged, misplaced, or of a newer schema"),
    "DB_READONLY": (3, "the database or its directory cannot be written"),
    "INTERNAL": (3, "a fault of the tool or its environment"),
    "LOCKED": (4, "another process held the write lock for too long"),
    "TIMEOUT": (4, "the awaited state was not reached in time"),
    "DISK_FULL": (4, "no room left on the device"),
    "CONFLICT": (5, "the job's state does not allow this"),
    "IDEMPOTENCY_CONFLICT": (5, "the key belongs to an active job that differs"),
    "LEASE_LOST": (5, "the lease is not held any more"),
}

WARNINGS = {
    "DB_CREATED": "this call made the database",
    "KILL_ASYNC": "the end of a running job was asked for and is not over yet",
    "NO_ATTEMPTS_YET": "the job has never run",
    "NO_WORKER": "no live worker serves the lane",
    "IDEMPOTENCY_METADATA_DIFFERS": "the existing job differs in tags, note or schedule",
    "SHARED_PERMISSIONS": "others may write the queue",
    "UNVERIFIABLE_OWNER": "--unverified was needed and used",
}


SKIPPED = ("CONFLICT", "IDEMPOTENCY_CONFLICT", "SAFETY_BLOCK")  # why one of several jobs was left as it is


class SpoolctlError(Exception):
    """A refusal or fault with a code of `ERRORS`, and a message that tells the way out.

    `remediation` is a command line that a shell runs as it stands. `detail` holds the facts of the code
    (SPEC 2.1), `did_you_mean` the nearest known word.
    """

    def __init__(
        self,
        code: str,
        message: str,
        remediation: str,
        detail: "dict[str, object] | None" = None,
        did_you_mean: "str | None" = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remediation = remediation
        self.detail = detail or {}
        self.did_you_mean = did_you_mean

    @property
    def exit_code(self) -> int:
        return ERRORS[self.code][0]


def invalid(
    message: str,
    remediation: str,
    did_you_mean: "str | None" = None,
    **detail: object,
) -> SpoolctlError:
    """INVALID_INPUT; keyword arguments are the facts (`flag`, `value`, `minimum`, …)."""
    return SpoolctlError("INVALID_INPUT", message, remediation, detail, did_you_mean)


def nearest(word: str, known: "list[str] | tuple[str, ...]", most: int = 2) -> "str | None":
    """The known word within `most` edits of `word` (SPEC 2.3), the closest and first of them.

    Two neighbours in the wrong order are one edit: the commonest slip of all. A word of which half would
    have to change is not meant: -f is no -q, and stop no show.
    """
    best, best_distance = None, most + 1
    for candidate in known:
        longest = max(len(candidate), len(word))
        if abs(len(candidate) - len(word)) < best_distance:
            distance = _edits(word, candidate)
            if distance < best_distance and 2 * distance < longest:
                best, best_distance = candidate, distance
    return best


def _edits(word: str, other: str) -> int:
    before: "list[int]" = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(word):
        row = [i + 1]
        for j, b in enumerate(other):
            edits = min(last[j + 1] + 1, row[j] + 1, last[j] + (a != b))
            if i and j and a == other[j - 1] and b == word[i - 1]:
                edits = min(edits, before[j - 1] + 1)
            row.append(edits)
        before, last = last, row
    return last[-1]
