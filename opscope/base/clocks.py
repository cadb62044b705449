"""Clocks that nobody sets: the seconds in which this process was awake, and the time of day as it has gone on since."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

LONGEST = 2.0
"""So many seconds count of a longer gap between two looks. Whoever waits for something looks more often; in such a gap
the machine stood still (a lid that is closed, `docker pause`), or this process did (Ctrl-Z)."""

_looked = time.monotonic(), 0.0
"""When this process last looked, and how long it was awake by then. One value, so that threads need no lock, which a
fork might find taken."""


def awake() -> float:
    """Seconds in which this process was awake, from any moment on. Limits of children are of this time: what waits for
    one looks more than once a second. A gap counts once for all limits."""
    global _looked
    before, seconds = _looked
    at = time.monotonic()
    _looked = at, seconds + min(max(at - before, 0.0), LONGEST)
    return _looked[1]


def _elapsed() -> float:
    """Seconds from any moment on, also those in which the machine slept, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_BEGAN = datetime.now(UTC), _elapsed()


def now() -> datetime:
    """The time with its zone, by the clock of the machine as it was when this process began: if that is set
    meanwhile, durations stay what they are."""
    return _BEGAN[0] + timedelta(seconds=_elapsed() - _BEGAN[1])
