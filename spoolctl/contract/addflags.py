"""The flags that describe a job: `add` has them, and so has every line of `--from` (SPEC 3, add)."""

from . import env, limits
from .spec import Flag
from .types import (
    DIRECTORY,
    LANE,
    PRIORITY,
    TIMESTAMP,
    Bytes,
    Choice,
    Duration,
    EnvVar,
    Float,
    Integer,
    Key,
    Tag,
    Text,
)

FLAGS = (
    Flag("--after", Duration(), help="run no sooner than this from now"),
    Flag("--at", TIMESTAMP, help="run no sooner than this moment; the past means now"),
    Flag("--priority", PRIORITY, 0, "higher runs first"),
    Flag("--queue", LANE, "default", "the lane", short="-q", config="queue"),
    Flag("--key", Key(), help="at most one active job per lane and key"),
    Flag("--key-scope", Choice("active", "kept"), "active", "kept: the key matches a finished job too"),
    Flag(
        "--timeout",
        Duration(limits.INT64_MAX, positive=True, none=True),
        300,
        "end an attempt that runs longer",
        config="timeout",
    ),
    Flag("--max-retries", Integer(0, limits.RETRIES_MAX), 3, "retries after failures", config="max_retries"),
    Flag(
        "--max-crashes",
        Integer(0, limits.RETRIES_MAX, none=True),
        10,
        "requeues after crashes of the worker",
        config="max_crashes",
    ),
    Flag("--backoff-base", Duration(), 2, "delay before the first retry"),
    Flag("--backoff-factor", Float(1, limits.BACKOFF_FACTOR_MAX), 2, "growth from retry to retry"),
    Flag("--backoff-max", Duration(), 60, "the longest delay"),
    Flag("--backoff-jitter", Float(0, 1), 0, "share of a delay that is drawn at random"),
    Flag("--cwd", DIRECTORY, help="directory to run in; default the present one"),
    Flag("--env", EnvVar(env.RESERVED), help="set a variable, or copy yours", repeat=True),
    Flag("--tag", Tag(), help="label the job", repeat=True),
    Flag("--note", Text(limits.NOTE_MAX), help="free text"),
    Flag("--max-output", Bytes(), None, "end an attempt that prints more than this"),
    Flag("--keep-children", help="leave what the command left behind when it ends"),
)

# The keys of a JSON line of `--from` beside those of FLAGS: the command, and other names of a flag.
COMMANDS = ("argv", "command")
SPELLINGS = {"tags": "tag"}
