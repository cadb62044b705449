"""A fork of this process that takes one piece of data after another, for code that is already loaded and may crash.

It says only that it came back from each piece. A fork costs tens of milliseconds, since the kernel copies the tables of
a process's memory; a piece for a fork that is there costs a fraction of one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable

from opscope.base.children.child import Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending
from opscope.base.children.frames import RETURNED
from opscope.base.children.inside import Parent
from opscope.base.children.local_fork import Local
from opscope.base.children.shared_block import MappedBlock, SharedBlock

_MARGIN = 1.0
"""Seconds after its time at which the fork ends itself, in case its parent is gone."""
_MOST_BYTES = 64 << 20
"""After so much data the next piece gets a new fork, since parsers keep what they have interned."""


class WarmFork:
    """The fork, made when it is first needed and again after it has ended. Safe for threads."""

    def __init__(self, function: Callable[[bytes], object]) -> None:
        """`function` is called in the fork. A Python exception counts as a normal return: the fork survived it."""
        self._function = function
        self._lock = threading.Lock()
        self._owner, self._taken = 0, 0
        self._fork: tuple[Child, SharedBlock] | None = None
        """The fork, and the memory in which it finds the data."""
        self._others: object = None
        """The fork of the process that this one is a fork of, which nobody may close here."""

    def run(self, data: bytes, *, seconds: float, memory: int | None = None) -> Ending:
        """Has the fork call the function with `data`, and returns how that ended.

        `memory` is how many bytes the fork may hold more than it began with: it shares what this process holds.
        """
        with self._lock:
            child, block = self._ready()
            child.memory, returned = memory, False
            self._taken += len(data)
            try:
                block.reserve(len(data))[: len(data)] = data
                child.send({"path": block.path, "mapped": block.size, "size": len(data), "seconds": seconds})
                child.receive(Deadline(seconds))
                returned = True
                return Ending(Cause.RETURNED, RETURNED)
            except ChildEnded as ended:
                return ended.ending
            finally:  # an interrupt leaves no fork behind that works at an older piece
                if not returned:
                    self._end()

    def close(self) -> None:
        """Ends the fork, if there is one."""
        with self._lock:
            self._end()

    def _ready(self) -> tuple[Child, SharedBlock]:
        """A fork that waits for data."""
        if self._owner != os.getpid():
            self._fork, self._others, self._owner = None, self._fork, os.getpid()
        if self._fork is not None and (self._taken > _MOST_BYTES or not self._fork[0].wait(0)):
            self._end()
        if self._fork is None:
            # Not bound to this thread, which may end before the fork does.
            self._fork, self._taken = (Child(Local(self._serve, bound=False)), SharedBlock()), 0
        return self._fork

    def _end(self) -> None:
        if self._fork is not None and self._owner == os.getpid():
            for part in self._fork[::-1]:
                part.close()
            self._fork = None

    def _serve(self, parent: Parent) -> None:
        """The fork: takes data until its parent closes the connection."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        block = MappedBlock()
        while (piece := parent.receive()) is not None:
            signal.setitimer(signal.ITIMER_REAL, piece["seconds"] + _MARGIN)
            data = bytes(block.at(piece["path"], piece["mapped"])[: piece["size"]])
            with contextlib.suppress(Exception):
                self._function(data)
            signal.setitimer(signal.ITIMER_REAL, 0)
            del data
            parent.send({})
