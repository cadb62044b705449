"""How a child ended. Every caller turns this into its own record, message or exit code."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum

from opscope.base import clocks

FROM_OUTSIDE = frozenset({"signal SIGKILL", "signal SIGTERM", "signal SIGHUP", "signal SIGINT"})
"""Kinds of endings by signals that a process hardly sends to itself."""

KILLED = re.compile(r"\bkilled by (the system \()?SIG(KILL|TERM|HUP|INT)\b")
"""How the text of such an ending reads, also in a longer line. It is no property of what ran: it is stored as none."""

OF_THE_MACHINE = re.compile(r"\b(MemoryError|OSError|Errno|bad_alloc|RESOURCE_EXHAUSTED|KeyboardInterrupt)\b")
"""Words in an error that point to the state of the machine and not to what ran."""


class Cause(StrEnum):
    """What ended a child."""

    RETURNED = "returned"
    """Its function returned: nothing is wrong."""
    RAISED = "raised"
    """Its function raised an exception."""
    EXIT = "exit"
    """It exited with a code before its function returned."""
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    THREADS = "threads"
    PROTOCOL = "protocol"
    """It wrote something that is no message, or closed its end of the connection."""


CRASHES = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"})
"""The signals of a process that cannot go on."""


@dataclass(frozen=True)
class Ending:
    """The end of a child."""

    cause: Cause
    text: str
    """What happened, as text that follows the child's name: `killed by SIGSEGV`."""
    code: int = 0
    """The exit code, or the number of the signal."""
    traceback: str = ""
    """The traceback of the exception that the child's function raised; `text` has it in one line."""

    @property
    def ok(self) -> bool:
        """Whether the child did what it was asked to do."""
        return self.cause is Cause.RETURNED

    @property
    def crashed(self) -> bool:
        """Whether a signal ended it that its own code brought about, and nobody sent."""
        return self.cause is Cause.SIGNAL and signal_name(self.code) in CRASHES

    @property
    def from_outside(self) -> bool:
        """Whether somebody else ended the child, by a signal that a process hardly sends to itself.

        What the limits of its parent end has another cause.
        """
        return self.kind in FROM_OUTSIDE

    @property
    def cut_short(self) -> bool:
        """Whether a limit or somebody else ended it, which says what a run did and nothing about what it ran."""
        return self.from_outside or self.cause in (Cause.TIMEOUT, Cause.MEMORY)

    @property
    def kind(self) -> str:
        """The cause in a word or two: `exit 3`, `signal SIGSEGV`, `timeout`, `memory`."""
        if self.cause in (Cause.EXIT, Cause.RAISED):  # Python itself leaves with exit code 1 after an exception
            return f"exit {self.code}"
        return f"signal {signal_name(self.code)}" if self.cause is Cause.SIGNAL else self.cause.value


class ChildEnded(Exception):
    """A child gives no more answers."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.text)
        self.ending = ending


def of_return_code(code: int) -> Ending:
    """The ending of a process with the return code that `subprocess` gives: negative for a signal."""
    if code < 0:
        return Ending(Cause.SIGNAL, f"killed by {signal_name(-code)}", -code)
    return Ending(Cause.EXIT, f"left with exit code {code}", code)


def killed_from_outside(kind: str) -> str:
    """What is said of a process that somebody else has ended, by the kind of its ending; `KILLED` finds it."""
    name = kind.removeprefix("signal ")
    return f"killed by the system ({name}), probably out of memory" if name == "SIGKILL" else f"killed by {name}"


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


class Deadline:
    """A deadline some seconds from now, in which this process is awake."""

    def __init__(self, seconds: float | None) -> None:
        """The deadline is `seconds` from now. With None, there is no deadline."""
        self.seconds = seconds
        self._at = float("inf") if seconds is None else clocks.awake() + seconds

    def left(self) -> float:
        """Seconds that are left until the deadline, not below zero."""
        return max(0.0, self._at - clocks.awake())
