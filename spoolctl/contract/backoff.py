"""The delay before the next try (SPEC 5), for jobs and for the Python API alike."""

import math


def delay(n: int, base: float, factor: float, most: float, jitter: float, draw: float) -> float:
    """Seconds before the try after the n-th unsuccessful execution: min(most, base·factor^(n−1)),
    of which the share `jitter` is drawn; `draw` is uniform in [0, 1). Never overflows."""
    if base <= 0 or most <= 0:
        return 0.0
    exponent = max(0, n - 1)
    if factor > 1 and exponent * math.log(factor) >= math.log(max(most, base)) - math.log(base):
        wait = float(most)
    else:
        half = exponent // 2  # in two steps: one power alone may pass the largest float
        wait = min(float(most), base * float(factor) ** half * float(factor) ** (exponent - half))
    return wait * (1 - jitter * draw)
