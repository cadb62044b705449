"""A count that only grows, and that processes wait for: what is full of a circular buffer, and what is free again."""

from __future__ import annotations

import heapq
from itertools import count

import simpy


class Progress:
    """A count, and who waits for which value of it."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env, self.value = env, 0
        self._waiting: list[tuple[int, int, simpy.Event]] = []
        self._order = count()

    def reach(self, value: int) -> simpy.Event | None:
        """Returns an event to wait for until the count is `value`; None if it is already."""
        if self.value >= value:
            return None
        event = self.env.event()
        heapq.heappush(self._waiting, (value, next(self._order), event))
        return event

    def advance(self, by: int = 1) -> None:
        """Adds to the count and wakes those that waited for what it is now."""
        self.value += by
        while self._waiting and self._waiting[0][0] <= self.value:
            heapq.heappop(self._waiting)[2].succeed()
