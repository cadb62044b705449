"""A program in its own session, which can be waited for and ended with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from opscope.base.children import process_tree


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
