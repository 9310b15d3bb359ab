"""Every number a value or a call is bounded by (SPEC 2.4), named once."""

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

SECONDS_MAX = 31_536_000_000  # a thousand years: any duration
TIMESTAMP_MAX = 31_536_000_000
POLL_MAX = 3600
WAIT_MAX = 86_400
PRIORITY_MIN, PRIORITY_MAX = -(2**31), 2**31 - 1

LANE_MAX = 64
KEY_MAX = 256
WORKER_ID_MAX = 256
TAG_KEY_MAX, TAG_VALUE_MAX, TAGS_PER_JOB = 128, 1024, 16
ENV_KEY_MAX, ENV_VALUE_MAX = 128, 131_071
NOTE_MAX = 10_000
PATH_MAX = 4096
RETRIES_MAX = 2**31 - 1
CONCURRENCY_MAX = 1024
BACKOFF_FACTOR_MAX = 1000

FROM_MAX = 200_000  # jobs of one `add --from`
LINE_MAX = 64 * 1024 * 1024  # bytes of one line of it: a payload of 8 MiB with every byte escaped fits
FROM_IDS_MAX = 1000  # above it `job_ids` is null
LIST_MAX = 1000
LIST_DEFAULT = 50
EVENTS_MAX = 10_000
EVENTS_DEFAULT = 1000
STATUS_DEFAULT = 10
STATUS_MAX = 1000
SCHEDULED_CAP = 10_000
WAIT_JOBS_MAX = 1000  # above it `wait` shows only jobs that are not done
FEEDBACK_MAX = 100
FEEDBACK_TAIL_DEFAULT, FEEDBACK_TAIL_MAX = 2048, 65_536
OUTPUT_TAIL_MAX = 1_048_576
PREVIEW_BYTES = 4096
COMMAND_SHOWN = 80
ERROR_MAX = 10_000

# Seconds of the protocols (SPEC 5, 6, 7).
GRACE = 5  # from TERM to KILL, where a worker says nothing else
BEYOND_GRACE = 2.0  # a call waits so much longer than the grace for the end of a running job
LOCK_PATIENCE = 5  # a call waits so long for the write lock
NOTICED_WITHIN = 2  # a death, while any other worker lives
OWNERS_EVERY = 1.0  # between two looks for dead owners
HEARTBEAT = 10
SILENT_AFTER = 1.0  # without the owner's stamp on a request; also between two looks whether it lives
AFTER_KILL = 2.0  # after KILL was sent, until a tree is stuck
UNPROVEN = 10.0  # the same while nobody is seen and only the proof is missing
OUTPUT_EVERY = 0.2  # between two looks at the size of an output that is limited
DISK_EVERY = 1.0  # between two looks at the room that is left
WOKEN_EVERY = 0.01  # at least, between two looks that touches of the wake file ask for
