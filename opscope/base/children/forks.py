"""Forks of this process, for code that is already loaded.

`in_forks` has several work together at one thing: they report to this process, which does nothing else meanwhile; each
dies with it, and if one dies, none goes on. A `WarmFork` takes one piece of data after another, for code that may
crash, and says only that it came back from each: a fork costs tens of milliseconds, since the kernel copies the tables
of a process's memory, a piece for a fork that is there a fraction of one.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NoReturn

from opscope.base.children.child import CappedLog, Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending
from opscope.base.children.frames import RETURNED
from opscope.base.children.inside import Parent
from opscope.base.children.process import Local
from opscope.base.shared_block import MappedBlock, SharedBlock

_LOOK = 0.2
"""Seconds between two looks at forks, where the system does not tell that one has ended."""

_FAILED = 70
"""The exit code for a fork that ended otherwise than by an exit or a signal."""

Work = Callable[[int, Callable[[dict[str, Any]], None]], None]


class ForkDied(Exception):
    """A fork has died, as its ending says."""

    def __init__(self, number: int, ending: Ending) -> None:
        super().__init__(f"fork {number}: {ending.text}")
        self.number, self.ending = number, ending


class RaisedInFork(Exception):
    """A fork has raised an exception: its type and its first line. The traceback was printed there."""


class _Passing(CappedLog):
    """Output of a fork, which is this process's too."""

    def write(self, data: bytes) -> None:
        """Writes it to stderr."""
        super().write(data)
        os.write(2, data)


def in_forks(
    count: int, work: Work, on_message: Callable[[int, dict[str, Any]], bool | None], keep: Sequence[int] = ()
) -> None:
    """Has `count` forks call `work` with their number and what sends a message, until all have come to an end.

    `on_message` gets each message with the fork's number; once it returns True, all that is left of the forks is ended.
    Files that this process has open are closed in them, except `keep`. Raises ForkDied, RaisedInFork, an OSError that a
    fork raised, and what `on_message` raises; no fork is left then.
    """
    with ExitStack() as stack:
        local = Local(partial(_work, work), tuple(keep))
        children = {number: stack.enter_context(Child(local, log=_Passing())) for number in range(count)}
        for number, child in children.items():
            child.send({"number": number})
        while children:
            poll = select.poll()
            for child in children.values():
                for descriptor in child.descriptors():
                    poll.register(descriptor, select.POLLIN)
            poll.poll(_LOOK * 1000)
            for number in list(children):
                for message in _messages(number, children[number]):
                    if RETURNED in message:
                        if message[RETURNED] is not None:
                            raise OSError(*message[RETURNED])
                        del children[number]
                        break
                    if on_message(number, message):
                        return


def end_as(ending: Ending) -> NoReturn:
    """Ends this process as one of its forks ended, whose stack was printed: its parent need not know of forks."""
    sys.stdout.flush()
    sys.stderr.flush()
    if ending.cause is Cause.SIGNAL:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(ending.code, signal.SIG_DFL)
        os.kill(os.getpid(), ending.code)
    os._exit(ending.code or _FAILED)


def _messages(number: int, child: Child) -> Any:
    """The messages of a fork that have arrived. Raises ForkDied if it has ended without its last one, RaisedInFork."""
    alive = child.wait(0)
    try:
        while child.has_more() or not alive:
            yield child.receive(Deadline(None))
    except ChildEnded as ended:
        kind = RaisedInFork(ended.ending.text) if ended.ending.cause is Cause.RAISED else ForkDied(number, ended.ending)
        raise kind from None


def _work(work: Work, parent: Parent) -> list[Any] | None:
    """The fork: works, and returns an OSError that ended it."""
    try:
        work(parent.task()["number"], parent.send)
    except OSError as error:
        return [error.errno, error.strerror or str(error)]
    return None


_MARGIN = 1.0
"""Seconds of the processor after its time at which the fork ends itself, in case its parent is gone. Time in which the
machine stood still is none."""
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
        block = MappedBlock()
        while (piece := parent.receive()) is not None:
            signal.setitimer(signal.ITIMER_PROF, piece["seconds"] + _MARGIN)
            data = bytes(block.at(piece["path"], piece["mapped"])[: piece["size"]])
            with contextlib.suppress(Exception):
                self._function(data)
            signal.setitimer(signal.ITIMER_PROF, 0)
            del data
            parent.send({})
