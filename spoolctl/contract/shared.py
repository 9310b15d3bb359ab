"""Flags and arguments that several verbs share, stated once."""

from .spec import Arg, Flag
from .states import STREAMS
from .types import LANE, POLL, Choice, JobRef, Tag

JOB = Arg("ID", JobRef(), "1", "the job")
JOBS = Arg("ID", JobRef(ranges=True), "*", "jobs")

QUEUE = Flag("--queue", LANE, help="only jobs of this lane", short="-q")
TAG = Flag("--tag", Tag(selector=True), help="only jobs with this tag; all must match", repeat=True)
POLL_INTERVAL = Flag("--poll-interval", POLL, 1, "upper bound of a sleep between two looks")
STREAM = Flag("--stream", Choice("both", *STREAMS), "both", "which stream")
YES = Flag("--yes", help="confirm", short="-y")
UNVERIFIED = Flag("--unverified", help="act although the owner cannot be judged")
