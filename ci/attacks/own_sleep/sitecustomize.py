"""Has a process sleep by `poll`. Python imports this at the start of each process that has its folder on PYTHONPATH;
`ci/attacks/clock.py` does that.

libfaketime takes the deadline of CPython's own sleep, which is one of the monotonic clock, for a time of day: once the
clock was set back, each sleep is an invalid argument.
"""

from __future__ import annotations

import select
import time


def sleep(seconds: float) -> None:
    """Sleeps. Raises ValueError for a negative time."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.poll().poll(1000 * seconds)


time.sleep = sleep
