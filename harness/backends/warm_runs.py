"""How long a program takes that has run before: the median of a few runs, and how far they lie apart."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

MOST_RUNS = 5
MOST_NS = 50_000_000
"""Nanoseconds for all of them: an op that takes longer than half of it is run once more at most."""


def timed(run: Callable[[], object]) -> tuple[float, float | None]:
    """The median of some runs in nanoseconds, and their spread; None if there was time for one alone.

    The spread is the slowest less the fastest, of five without the two that are farthest out: another process may have
    had the processor meanwhile. Raises what `run` raises.
    """
    times: list[int] = []
    while len(times) < MOST_RUNS and (not times or sum(times) + max(times) <= MOST_NS):
        begin = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    if len(times) == 1:
        return times[0], None
    inner = times[1:-1] if len(times) == MOST_RUNS else times
    return statistics.median(times), float(inner[-1] - inner[0])
