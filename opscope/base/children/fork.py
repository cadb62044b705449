"""Runs one call in a fork of this process, for code that is already loaded, may crash and returns nothing needed."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable

from opscope.base.children.ending import Cause, ChildEnded, Ending, of_return_code
from opscope.base.children.parent_death import die_with_parent
from opscope.base.children.process_tree import usage

_LONGEST_PAUSE = 0.01
_FAILED = 70
"""The exit code if neither the function nor a Python exception ended the child."""


def run_in_fork(function: Callable[[], object], *, seconds: float, memory: int | None = None) -> Ending:
    """Runs a function in a fork of this process, which prints nothing, and returns how the fork ended.

    A Python exception counts as a normal return, because the fork survived it. `memory` is the largest number of bytes
    that it may hold more than it began with: it shares what this process holds.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads, which the child neither has nor needs
        child = os.fork()
    if child == 0:
        _run_and_leave(function, parent)
    status = None
    try:
        status = _status(child, seconds, memory)
    except ChildEnded as ended:
        return ended.ending
    finally:  # an interrupt leaves no child behind either
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if status is None:
        return Ending(Cause.TIMEOUT, f"no answer within {seconds:g} s")
    code = os.waitstatus_to_exitcode(status)
    return of_return_code(code) if code else Ending(Cause.RETURNED, "returned")


def _status(child: int, seconds: float, memory: int | None) -> int | None:
    """Returns the status of a fork, or None if it still runs after `seconds`. Raises ChildEnded at `memory` bytes."""
    until, pause = time.monotonic() + seconds, 0.0005
    before = usage(child)[0]
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > until:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
        if memory is not None and pause == _LONGEST_PAUSE and (held := usage(child)[0] - before) > memory:
            raise ChildEnded(Ending(Cause.MEMORY, f"{held >> 20} MiB resident, {memory >> 20} MiB allowed"))


def die_quietly() -> None:
    """Has this process, a fork, leave no core and print nothing: a native abort prints its stack."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)


def _run_and_leave(function: Callable[[], object], parent: int) -> None:
    """Runs the function in the fork; never returns."""
    code = _FAILED
    try:
        die_with_parent(parent)
        die_quietly()
        with contextlib.suppress(Exception):
            function()
        code = 0
    finally:
        os._exit(code)
