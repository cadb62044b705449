"""The queue of a device's inputs: bounded while something takes from it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

CAPACITY = 64
"""Entries that wait at most while a run takes them; a push then blocks. Before a run, nothing would end the wait."""


class InputQueue:
    """Inputs in the order in which they were pushed."""

    def __init__(self) -> None:
        self._held: deque[Any] = deque()
        self._changed = threading.Condition()

    def put(self, inputs: Any, running: Callable[[], bool]) -> None:
        """Adds inputs; blocks while the queue is full and `running` says that something takes from it."""
        with self._changed:
            while len(self._held) >= CAPACITY and running():
                self._changed.wait(0.05)
            self._held.append(inputs)
            self._changed.notify_all()

    def take(self, stopped: Callable[[], bool], begin: Callable[[], None] = lambda: None) -> Any | None:
        """Removes and returns the oldest inputs; waits for them, or returns None once `stopped` holds.

        `begin` is called before they are removed: whoever sees an empty queue afterwards also sees what it did.
        """
        with self._changed:
            while not self._held:
                if stopped():
                    return None
                self._changed.wait(0.05)
            begin()
            taken = self._held.popleft()
            self._changed.notify_all()
            return taken

    def first(self) -> Any | None:
        """Returns the oldest inputs without removing them; None if there are none."""
        with self._changed:
            return self._held[0] if self._held else None

    def clear(self) -> None:
        """Removes all."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._held)
