"""Forks of this process that work together at one thing, for code that is already loaded and has no threads.

They report to this process, which does nothing else meanwhile. Each dies with it. If one dies, none goes on.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NoReturn

from opscope.base.children.capped_log import CappedLog
from opscope.base.children.child import Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending
from opscope.base.children.frames import RETURNED
from opscope.base.children.inside import Parent
from opscope.base.children.local_fork import Local

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
