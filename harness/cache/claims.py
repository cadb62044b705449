"""Marks folders as in use: the process that uses or creates one holds a shared lock on it, which ends with the process.

Clean-up takes the lock exclusively before it removes a folder, so it never removes one that a live run uses. A run
holds its own folder exclusively, so that no second run writes into it. On a file system without locks, no folder counts
as free, and none as taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from opscope.base.temporary_folder import TemporaryFolder

_ATTEMPTS, _PAUSE = 5, 0.02
"""How often, and after which pause in seconds, a folder is tried to be claimed alone."""


class Claims:
    """The folders that one process claims, so that no other process removes them; a context manager.

    Any thread may claim a folder.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: dict[Path, int] = {}
        self._temporary: TemporaryFolder | None = None

    def hold(self, folder: Path) -> None:
        """Claims a folder until `close`. Does nothing if it is gone or cannot be locked."""
        with self._lock, contextlib.suppress(OSError):
            self._drop(folder)
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            self._held[folder] = descriptor
            fcntl.flock(descriptor, fcntl.LOCK_SH)

    def hold_alone(self, folder: Path) -> bool:
        """Claims a folder until `close` so that no other process can claim it. Returns False if another process does.

        On a file system without locks, nobody can tell, and the answer is True.
        """
        self._drop(folder)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        for attempt in range(_ATTEMPTS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt + 1 < _ATTEMPTS:  # `in_use` and `alone` hold the lock for a moment
                    time.sleep(_PAUSE)
                    continue
                os.close(descriptor)
                return False
            except OSError:
                pass
            break
        self._held[folder] = descriptor
        return True

    def temporary(self) -> Path:
        """A folder that exists until `close`, for what a read-only cache does not take."""
        with self._lock:
            if self._temporary is None:
                self._temporary = TemporaryFolder("cache")
            return Path(self._temporary.name)

    def _drop(self, folder: Path) -> None:
        """Releases one folder, even if its path now holds something else."""
        descriptor = self._held.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Releases all folders."""
        for folder in list(self._held):
            self._drop(folder)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

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
def alone_in(folder: Path) -> Iterator[None]:
    """Waits until no other process is in this context for the same folder. Does not wait where it cannot be locked."""
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
