"""The programs of children: a command, or a fork of this process, in a session of its own and an environment for
frameworks; both can be waited for and ended with everything that they started.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opscope.base.children import parent_death, process_tree
from opscope.base.variables import variables_now


class Program(ABC):
    """A process that leads a session of its own. What it prints goes to a file descriptor of its starter."""

    pid: int
    shares: int = 0
    """Resident bytes that it has in common with its starter."""

    @abstractmethod
    def open_handle(self) -> int | None:
        """A new file descriptor that is readable once the program has ended; None where every wait has to ask."""

    @abstractmethod
    def wait(self, seconds: float | None) -> int | None:
        """Returns the return code (negative for a signal), or None if the program still runs after `seconds`."""

    def has_ended(self) -> bool:
        """Whether the program has ended."""
        return self.wait(0) is not None

    def kill(self) -> None:
        """Ends the program and all its descendants at once. If it has already ended, ends what is left of its group."""
        if self.has_ended():  # the number may belong to another process by now, though not to another group
            process_tree.kill_group(self.pid)
            self._kill_strays()
        else:
            process_tree.kill(self.pid)
            self.wait(None)

    @abstractmethod
    def _kill_strays(self) -> None:
        """Kills what the ended program has left behind outside of its group."""

    def interrupt(self, grace: float) -> None:
        """Ends the program as Ctrl-C does, and kills what is left of it after some seconds."""
        try:
            os.killpg(self.pid, signal.SIGINT)
        except ProcessLookupError:
            pass  # it has ended
        else:
            self.wait(grace)
        self.kill()


class Process(Program):
    """A program that this process started by its command."""

    def __init__(
        self,
        command: Sequence[str],
        output: int,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        descriptors: Sequence[int] = (),
        mark: str = "",
    ) -> None:
        """Starts `command` in `folder`; it inherits `descriptors`. Raises OSError if it cannot be started.

        `mark` is a variable of its environment that no other program has: by it, `kill` knows what a program that has
        ended by itself has left behind.
        """
        self._mark = mark
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def open_handle(self) -> int | None:
        """A new file descriptor that is readable once the program has ended; None on other systems than Linux."""
        return os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def wait(self, seconds: float | None) -> int | None:
        """Returns the return code (negative for a signal), or None if the program still runs after `seconds`."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _kill_strays(self) -> None:
        if self._mark:
            process_tree.kill_marked(self._mark)


SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
"""BLAS and XLA compute on one thread, so that digits repeat and children do not fight over the processor."""

XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DIFFUSERS_OFFLINE": "1"}
"""Stops frameworks from sending requests to their hubs."""

QUIET = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONUNBUFFERED": "1"}
"""Turns off the search for accelerators and needless logging; a child's output is not lost when it dies."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child: this process's own, with the changes above and then those of `extra`."""
    flags = os.environ.get("XLA_FLAGS", "")
    if XLA_FLAG not in flags.split():
        flags = f"{flags} {XLA_FLAG}".strip()
    return {**variables_now(), **SINGLE_THREADED, **OFFLINE, **QUIET, "XLA_FLAGS": flags, **(extra or {})}


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
