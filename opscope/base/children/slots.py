"""At most so many busy processes: each takes one of the slots that they share before it works.

A slot is a lock on one byte of a file, which ends with its process: whoever is killed leaves no slot taken. A process
has one slot at most, however many ask for it there, and forks inherit none. On a file system without locks all are
free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

TURN = 0.5
"""Seconds after which a process hands its slot on where another waits. Shorter ones would cost more waiting."""
PAUSE, MOST_PAUSE = 0.004, 0.05
"""Seconds between two tries to get a slot, for each slot that there is, and the most: many that try often would take
the time of those that work."""


class Slots:
    """The slots of one file, as one process sees them. Not for several threads."""

    def __init__(self, path: Path, count: int) -> None:
        """The file is made if it is not there. Raises OSError."""
        self.path, self.count = path, count
        self._pause = min(MOST_PAUSE, PAUSE * count)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._process = os.getpid()
        self._own: int | None = None
        self._since = 0.0

    def take(self, check: Callable[[], None] = lambda: None) -> None:
        """Waits for a slot, where this process has none; `check` is called meanwhile and may raise."""
        if self.holds:
            return
        self._process, waits = os.getpid(), False
        try:
            while not self._try():
                waits = waits or self._lock(self.count, fcntl.LOCK_SH)
                check()
                time.sleep(self._pause)
        finally:
            if waits:
                self._unlock(self.count)
        self._since = time.monotonic()

    def give(self) -> None:
        """Hands the slot back, if this process has one."""
        if self.holds:
            assert self._own is not None
            self._unlock(self._own)
            self._own = None

    def hand_on(self) -> bool:
        """Hands the slot back if its turn is over and another process waits. The caller takes one before it goes on."""
        if not self.holds or time.monotonic() - self._since < TURN or not self._others_wait():
            return False
        self.give()
        time.sleep(2 * self._pause)  # or this process would have it again before the other looks
        return True

    @property
    def descriptor(self) -> int:
        """The file descriptor of the file."""
        return self._file

    @property
    def holds(self) -> bool:
        """Whether this process has a slot."""
        return self._own is not None and self._process == os.getpid()

    def _try(self) -> bool:
        first = os.getpid() % self.count
        for number in range(self.count):
            place = (first + number) % self.count
            if self._lock(place, fcntl.LOCK_EX):
                self._own = place
                return True
        return False

    def _others_wait(self) -> bool:
        if not self._lock(self.count, fcntl.LOCK_EX):
            return True
        self._unlock(self.count)
        return False

    def _lock(self, byte: int, kind: int) -> bool:
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            pass  # no locks here
        return True

    def _unlock(self, byte: int) -> None:
        with contextlib.suppress(OSError):  # no locks here
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


SlotFile = tuple[str, int]
"""A file of slots and their number, for another process."""


def take_one(file: Sequence[str | int] | None) -> None:
    """Waits for a slot of a file (path and number), which this process then has until it ends; None is no file."""
    if file is not None:
        path, count = file
        slots_of(str(path), int(count)).take()


@cache
def slots_of(path: str, count: int) -> Slots:
    """This process's slots of a file, opened once: to close it would give back what it holds. Raises OSError."""
    return Slots(Path(path), count)
