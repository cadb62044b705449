"""Marks folders as in use: the process that uses or creates one holds a shared lock on it, which ends with the process.

Clean-up takes the lock exclusively before it removes a folder, so it never removes one that a live run uses. On a file
system without locks, no folder counts as free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class Claims:
    """The folders that one process claims, so that no other process removes them; a context manager."""

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def hold(self, folder: Path) -> None:
        """Claims a folder until `close`. Does nothing if it is gone or cannot be locked."""
        self._drop(folder)
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            self._held[folder] = descriptor
            fcntl.flock(descriptor, fcntl.LOCK_SH)

    def _drop(self, folder: Path) -> None:
        """Releases one folder, even if its path now holds something else."""
        descriptor = self._held.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Releases all folders."""
        for folder in list(self._held):
            self._drop(folder)

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_use(folder: Path) -> bool:
    """Whether another process claims a folder, as far as its file system can tell."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Yields whether no other process claims a folder. If so, none can claim it within the context."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(descriptor)
