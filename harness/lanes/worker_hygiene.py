"""Undoes what an op may leave behind in its worker: redirected output, current folder, timers, file limits."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

_OUTPUTS = (1, 2)


class WorkerState:
    """The process as it was before its first op."""

    def __init__(self) -> None:
        # Duplicates, so that a backend cannot close them.
        self._outputs = [os.dup(descriptor) for descriptor in _OUTPUTS]
        self._streams = sys.stdout, sys.stderr
        self._folder = Path.cwd()
        self._mask = os.umask(0o022)
        os.umask(self._mask)

    def restore(self) -> None:
        """Reopens closed or redirected streams, returns to the folder, and stops timers that still run."""
        for kept, descriptor in zip(self._outputs, _OUTPUTS, strict=True):
            if not _same(kept, descriptor):
                os.dup2(kept, descriptor)
        sys.stdout, sys.stderr = (_open(stream, fd) for stream, fd in zip(self._streams, _OUTPUTS, strict=True))
        self._streams = sys.stdout, sys.stderr
        with contextlib.suppress(OSError):  # the folder was removed meanwhile
            os.chdir(self._folder)
        os.umask(self._mask)
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)


def _same(first: int, second: int) -> bool:
    """Whether two descriptors are the same open file."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:
        return False


def _open(stream: object, descriptor: int) -> object:
    """Returns the stream, or a new one if it was closed."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()  # type: ignore[attr-defined]
    if getattr(stream, "closed", True):
        return os.fdopen(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)
    return stream
