"""The environment variables spoolctl reads and the ones it gives to a job (SPEC 2.5, 5)."""

# What spoolctl reads.
DB = "SPOOLCTL_DB"
STDERR = "SPOOLCTL_STDERR"
STDERR_OFF = "off"  # the one value of it that counts
DEBUG = "SPOOLCTL_DEBUG"
DEBUG_ON = "1"
NO_COLOR = "NO_COLOR"
TERM = "TERM"
TERM_PLAIN = "dumb"
PWD = "PWD"
TZ = "TZ"

# What a job is given.
JOB_ID = "SPOOLCTL_JOB_ID"
ATTEMPT = "SPOOLCTL_ATTEMPT"
QUEUE = "SPOOLCTL_QUEUE"
JOB_DB = "SPOOLCTL_JOB_DB"
TOKEN = "SPOOLCTL_ATTEMPT_TOKEN"

# Set for every attempt, so `--env` of them is refused.
RESERVED = (JOB_ID, ATTEMPT, QUEUE, JOB_DB, TOKEN)

CAPTURED = ("PATH", "VIRTUAL_ENV")  # the submitter's, unless the config's capture_env says otherwise
