"""A fork of this process as the process of a child, for code that is loaded here and may crash.

It has this process's modules and values, but none of its files, signal handlers or streams, and a session of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from opscope.base.children import parent_death, process_tree
from opscope.base.children.process import Program

_LONGEST_PAUSE = 0.01
_FAILED = 70
"""The exit code of a fork that could not begin."""


class Local(NamedTuple):
    """A function that a child runs in a fork of this process. It takes an `inside.Parent`."""

    function: Callable[[Any], Any]
    keep: tuple[int, ...] = ()
    """Descriptors that stay open in the fork, under their numbers."""
    bound: bool = True
    """Whether the fork dies with the thread that has made it; if not, it ends when it next reads from its parent."""


class LocalFork(Program):
    """The process."""

    def __init__(self, local: Local, connection: int, output: int) -> None:
        """Calls the function as `inside.run` does. Raises OSError."""
        from opscope.base.children import inside  # for the fork, which should have to import nothing

        parent_death.libc()
        sys.stdout.flush()
        sys.stderr.flush()
        self._owner = os.getpid()
        self._code: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads, which the fork neither has nor needs
            self.pid = os.fork()
        if self.pid == 0:
            try:
                _become_child(connection, output, local.keep)
                inside.run(connection, self._owner if local.bound else None, local.function)
            finally:
                os._exit(_FAILED)
        self.shares = process_tree.usage(self.pid)[0]

    def open_handle(self) -> int | None:
        """A new file descriptor that is readable once the fork has ended; None on other systems than Linux."""
        return os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def wait(self, seconds: float | None) -> int | None:
        """Returns the return code (negative for a signal), or None if the fork still runs after `seconds`."""
        until, pause = time.monotonic() + (float("inf") if seconds is None else seconds), 0.0005
        while self._code is None:
            try:
                pid, status = os.waitpid(self.pid, 0 if seconds is None else os.WNOHANG)
            except ChildProcessError:  # somebody has asked for all children of this process
                pid, status = self.pid, 1 << 8
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        return self._code

    def kill(self) -> None:
        """Ends the fork and all its descendants at once. A fork of its maker leaves it alone."""
        if os.getpid() == self._owner:
            super().kill()

    def _kill_strays(self) -> None:
        pass  # it was their reaper, and they were in its group


def die_quietly() -> None:
    """Has this process, a fork, leave no core and print nothing: a native abort prints its stack."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)


def _become_child(connection: int, output: int, keep: Sequence[int]) -> None:
    """Takes nothing of this process along but its memory, the connection and what it is to keep."""
    os.setsid()  # Ctrl-C is the parent's, which ends the fork if it wants to
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    die_quietly()
    os.dup2(output, 1)
    os.dup2(output, 2)
    last = 2
    for descriptor in sorted({*keep, connection}):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdout, sys.stderr = (open(stream, "w", errors="backslashreplace", closefd=False) for stream in (1, 2))  # noqa: SIM115
