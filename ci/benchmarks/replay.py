"""How long a sweep would take if only its models and ops took time: recorded times replayed in turns of free workers.

`phases` is a sweep that runs no op before all models are prepared, as many of them side by side as `preparers`; without
phases a free worker prepares the next model, or takes an op whose golden is there. No processor time of the harness, no
start and no report are in it, so a measured sweep can only be slower.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Protocol


class Times(Protocol):
    """The seconds of one model."""

    @property
    def before(self) -> float:
        """Export and split."""
        ...

    @property
    def golden(self) -> float:
        """The whole walk."""
        ...

    @property
    def ops(self) -> tuple[float, ...]:
        """Each op."""
        ...

    @property
    def apart(self) -> bool:
        """Whether its goldens can be made by several workers."""
        ...


def in_turns(jobs: Sequence[float], workers: int) -> float:
    """Seconds until all jobs are done, each taken in order by the worker that is free first."""
    free = [0.0] * workers
    for seconds in jobs:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def with_phases(models: Sequence[Times], workers: int, preparers: int) -> float:
    """Seconds of a sweep whose ops wait for the preparation of all models."""
    prepared = in_turns([model.before + model.golden for model in models], preparers)
    return prepared + in_turns([seconds for model in models for seconds in model.ops], workers)


def without_phases(models: Sequence[Times], workers: int) -> float:
    """Seconds of a sweep in which each free worker prepares the next model (the longest first), or else makes a golden
    of a model that has been split and whose ops are apart, or else takes an op.
    """
    order = itertools.count()
    waiting = sorted(models, key=lambda model: model.before + model.golden)
    events: list[tuple[float, int, float, tuple[tuple[float, float], ...]]] = []
    """When; a number; the seconds of the op whose golden is there then, or -1 where a worker becomes free; and goldens
    that can be made then, each with the seconds of its op."""
    ready: list[float] = []
    goldens: list[tuple[float, float]] = []
    free, now = workers, 0.0
    while True:
        while free and (waiting or goldens or ready):
            free -= 1
            able: tuple[tuple[float, float], ...] = ()
            if waiting:
                model = waiting.pop()
                each = model.golden / len(model.ops)
                if model.apart:
                    took, able = model.before, tuple((each, seconds) for seconds in model.ops)
                else:
                    for number, seconds in enumerate(model.ops):
                        heapq.heappush(events, (now + model.before + each * (number + 1), next(order), seconds, ()))
                    took = model.before + model.golden
            elif goldens:
                took, seconds = goldens.pop()
                heapq.heappush(events, (now + took, next(order), seconds, ()))
            else:
                took = -heapq.heappop(ready)
            heapq.heappush(events, (now + took, next(order), -1.0, able))
        if not events:
            return now
        now, _, seconds, able = heapq.heappop(events)
        goldens += able[::-1]
        if seconds < 0:
            free += 1
        else:
            heapq.heappush(ready, -seconds)
