"""A job at work on a thread of its own: it reports to those who wait for it, and learns that it is to end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Stopped(Exception):
    """The job is to end: the caller has stopped it, or there is not enough memory for all jobs."""


class Turn:
    """One job at work: it reports, and learns that it is to end."""

    def __init__(self, report: Callable[[Any], None], all_stop: Callable[[], bool] = lambda: False) -> None:
        self._report, self._stop, self._all_stop = report, threading.Event(), all_stop

    def report(self, event: Any) -> None:
        """Hands an event to the caller. Raises Stopped."""
        self.check()
        self._report(event)

    def check(self) -> None:
        """Raises Stopped if the job is to end. To be called while it waits."""
        if self._stop.is_set() or self._all_stop():
            raise Stopped

    def stop(self) -> None:
        """Has the job end."""
        self._stop.set()
