"""How long a program takes that has run before: the median of a few runs, and how far they lie apart."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

MOST_RUNS = 5
MOST_NS = 50_000_000
"""Nanoseconds for all of them: an op that takes longer than half of it is run once more at most."""


def timed(run: Callable[[], object]) -> tuple[float, float | None]:
    """The median of some runs in nanoseconds, and the slowest less the fastest; None if there was time for one alone.

    Raises what `run` raises.
    """
    times: list[int] = []
    while len(times) < MOST_RUNS and (not times or sum(times) + max(times) <= MOST_NS):
        begin = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times), float(max(times) - min(times)) if len(times) > 1 else None
