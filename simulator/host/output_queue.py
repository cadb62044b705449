"""The queue of outputs: like any other, but reading it says so where nothing will ever come."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from opscope.simulator.host.errors import PyBudaError, again


class OutputQueue(queue.Queue[Any]):
    """Outputs in the order of the inputs; each entry is a list of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: Callable[[], BaseException | None] = lambda: None
        """What the run ended with, if with an error."""
        self.running: Callable[[], bool] = lambda: False
        """Whether a run may still add something."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Returns the oldest outputs. Raises what the run raised, PyBudaError if nothing runs, queue.Empty."""
        if not block:
            return super().get(block=False)
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            running = self.running()  # before the look: what a run adds last is there when it has ended
            try:
                return super().get(block=False)
            except queue.Empty:
                if (error := self.failed()) is not None:
                    raise again(error) from error
                if not running and timeout is None:
                    raise PyBudaError("outputs: expected a run that makes them, got none; try run_inference") from None
                if end is not None and time.monotonic() >= end:
                    raise
            time.sleep(0.005)
