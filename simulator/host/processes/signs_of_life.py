"""How a program notices that the process of a device hangs: while it works on a command, it gives signs of life.

A thread of its own gives them, so a process that computes for hours does, too. What hangs is stopped, or is in native
code that lets no other thread run.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from opscope.base.children import frames
from opscope.base.children.child import Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline
from opscope.base.children.inside import Parent
from opscope.simulator.host.errors import PyBudaError

SECONDS = 0.25
"""Between two signs."""
VARIABLE = "OPSCOPE_DEVICE_SILENCE"
DEFAULT_LIMIT = 60.0
"""Seconds without a sign after which a process counts as hanging, unless the variable of the environment differs."""
_SIGN = {"lives": True}


class SignsOfLife:
    """The child's side: `with` a command at work, signs go to the parent; `answer` ends them and sends the answer."""

    def __init__(self, parent: Parent) -> None:
        self._parent, self._lock = parent, threading.Lock()
        self._works = threading.Event()
        threading.Thread(target=self._say, daemon=True, name="signs of life").start()

    def begin(self) -> None:
        """A command is at work from now on."""
        self._works.set()

    def answer(self, message: dict[str, Any]) -> None:
        """Sends the answer to the command; no sign follows it."""
        with self._lock:
            self._works.clear()
            self._parent.send(message)

    def _say(self) -> None:
        with contextlib.suppress(OSError, frames.ProtocolError):  # the parent has gone
            while self._works.wait():
                time.sleep(SECONDS)
                with self._lock:
                    if self._works.is_set():
                        self._parent.send(_SIGN)


def silence_allowed() -> float | None:
    """Returns the seconds that a process may be silent; None for any time. Raises PyBudaError for a bad variable."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else DEFAULT_LIMIT
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf") or 0 < seconds < 4 * SECONDS:
        raise PyBudaError(f"{VARIABLE}: expected seconds from {4 * SECONDS:g}, or 0 for no limit, got {text!r}")
    return seconds or None


def answer_of(child: Child, seconds: float | None) -> dict[str, Any]:
    """Returns a child's answer, as long as no more than `seconds` lie between its signs. Raises ChildEnded.

    The time is waited for in two halves: where this process was stopped itself (Ctrl-Z), only one of them is over.
    """
    half = None if seconds is None else seconds / 2
    late = False
    while True:
        try:
            message = child.receive(Deadline(half))
        except ChildEnded as ended:
            if ended.ending.cause is not Cause.TIMEOUT or late:
                raise
            late = True
            continue
        if message != _SIGN:
            return message
        late = False
