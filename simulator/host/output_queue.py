"""The queue of outputs: like any other, but reading it says so where nothing will ever come."""

from __future__ import annotations

import os
import queue
import time
import warnings
from collections.abc import Callable
from typing import Any

from opscope.simulator.host.errors import PyBudaError, again

TIMEOUT_SCALE = "OPSCOPE_TIMEOUT_SCALE"
"""Variable by which the timeouts of `get` are multiplied: a simulated card takes longer than a real one."""


class SlowerThanSilicon(UserWarning):
    """A timeout has passed that a card would have met."""


class OutputQueue(queue.Queue[Any]):
    """Outputs in the order of the inputs; each entry is a list of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: Callable[[], BaseException | None] = lambda: None
        """What the run ended with, if with an error."""
        self.running: Callable[[], bool] = lambda: False
        """Whether a run may still add something."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Returns the oldest outputs. Raises what the run raised, PyBudaError if nothing runs, queue.Empty.

        A `timeout` is multiplied by `OPSCOPE_TIMEOUT_SCALE`; the first that passes while something runs says so.
        """
        if not block:
            return super().get(block=False)
        timeout = None if timeout is None else timeout * timeout_scale()
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
                    if running:
                        _say_once(timeout or 0)
                    raise
            time.sleep(0.005)


def timeout_scale() -> float:
    """Returns what timeouts are multiplied by. Raises PyBudaError for a variable that is no number above 0."""
    text = os.environ.get(TIMEOUT_SCALE) or "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0
    if not 0 < scale < 1e9:
        raise PyBudaError(f"{TIMEOUT_SCALE}: expected a number above 0, got {text!r}; try 1000")
    return scale


_said = False


def _say_once(seconds: float) -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            f"get: a simulated card has no output after {seconds:g} s; {TIMEOUT_SCALE}=1000 makes timeouts longer",
            SlowerThanSilicon,
            stacklevel=4,
        )
