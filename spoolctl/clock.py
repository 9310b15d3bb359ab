"""The only clock: wall time, monotonic time, boot time, and sleep.

Wall times are epoch seconds rounded to milliseconds; they are for people and for schedules.
Whatever decides "too long" uses `monotonic`, which no clock step can move.
"""

import time as _time

monotonic = _time.monotonic
sleep = _time.sleep


def now() -> float:
    """Epoch seconds, whole milliseconds."""
    return round(_time.time(), 3)


def boottime() -> float:
    """Seconds since boot, suspends included: what /proc start times are counted in."""
    try:
        return _time.clock_gettime(_time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # macOS has no CLOCK_BOOTTIME
        return _time.monotonic()


def iso(at: float) -> str:
    """`at` (epoch seconds) as UTC ISO 8601 with milliseconds and `Z`."""
    whole = int(at // 1)
    y, mo, d, h, mi, s = _time.gmtime(whole)[:6]
    return f"{y:04d}-{mo:02d}-{d:02d}T{h:02d}:{mi:02d}:{s:02d}.{int(round((at - whole) * 1000)) % 1000:03d}Z"
