"""What the devices of a cluster's workers do for one run: ops of its lanes, and walks of its models.

A walk has a device of its own. It is reserved before the walk is sent: from then on a worker gets fewer ops, and the
walk follows once no op would have to wait behind it. Walks come first, as ops need their goldens; but where ops wait,
one device is left to them, unless there is no other.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache

AHEAD = 1
"""Batches that wait on a worker besides those that its devices run, so that none idles while a message travels."""


class Devices:
    """The devices as the threads of one process share them. Workers are named by their addresses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[str, str] = {}
        """The worker of each batch that is under way or waits there, by the key of its task."""
        self._walks: Counter[str] = Counter()
        self._slots: dict[str, int] = {}
        """The devices of each worker, as far as those know who send ops."""
        self._ops_wait = False
        self.walk_seconds = 0.0
        """The longest time that a walk may take which has a device."""

    def ops_wait(self, wait: bool) -> None:
        """Says whether there are ops that could be sent."""
        self._ops_wait = wait

    def for_ops(self, slots: Mapping[str, int]) -> dict[str, int]:
        """Workers and their devices, without those that walks have."""
        with self._lock:
            self._slots = dict(slots)
            return {
                worker: count - self._walks[worker] for worker, count in slots.items() if count > self._walks[worker]
            }

    def admit(self, key: str, worker: str, busy: int) -> bool:
        """Whether a batch may be sent to a worker, where a lane has `busy` batches already; it counts as sent then."""
        with self._lock:
            left = self._slots.get(worker, 0) - self._walks[worker]
            if left <= 0 or busy >= left + AHEAD:
                return False
            self._batches[key] = worker
            return True

    def done(self, key: str) -> None:
        """Says that a batch is not under way any more."""
        with self._lock:
            self._batches.pop(key, None)

    def reserve(self, slots: Mapping[str, int], able: Callable[[str], bool]) -> str | None:
        """A worker that is `able` to walk a model and has a device that no other walk has; None if there is none now.

        Of several it is the one with the least to do.
        """
        with self._lock:
            walks = sum(self._walks[worker] for worker in slots)
            if self._ops_wait and 0 < sum(slots.values()) - 1 <= walks:
                return None
            batches = Counter(self._batches.values())
            free = [worker for worker, count in slots.items() if self._walks[worker] < count and able(worker)]
            if not free:
                return None
            worker = min(free, key=lambda name: ((self._walks[name] + batches[name]) / slots[name], name))
            self._walks[worker] += 1
            return worker

    def clear(self, worker: str, devices: int) -> bool:
        """Whether a walk for which a device is reserved may be sent: no batch would wait behind it."""
        with self._lock:
            left = max(0, devices - self._walks[worker])
            return sum(other == worker for other in self._batches.values()) <= left + AHEAD

    def more(self, worker: str, slots: Mapping[str, int], most: int) -> int:
        """Reserves further devices of a worker for a walk by several processes; how many, `most` at most."""
        with self._lock:
            others = sum(slots.values()) - sum(self._walks[name] for name in slots) - self._ops_wait
            count = max(0, min(most, slots[worker] - self._walks[worker], others))
            self._walks[worker] += count
            return count

    def release(self, worker: str, count: int = 1) -> None:
        """Gives the devices of a walk back."""
        with self._lock:
            self._walks[worker] -= count

    def walking(self) -> bool:
        """Whether a walk has a device."""
        with self._lock:
            return any(self._walks.values())


@cache
def of_run(run_id: str) -> Devices:
    """The devices of a run: all of its lanes and walks share them."""
    return Devices()
