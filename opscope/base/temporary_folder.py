"""Folders below TMPDIR that no process leaves behind: whoever makes one removes those of processes that were killed.

The process that makes a folder holds a lock on it, which ends with the process. A folder that nobody holds is removed
by the next process that makes one there. On a file system without locks no folder counts as abandoned.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

PREFIX = "opscope-tmp-"
_ATTEMPTS = 3
"""How often a folder is made that another process removes before it is locked, and how often one is removed in which a
process that is just ending may still write."""
_swept: set[tuple[int, str]] = set()
"""Processes, and the place in which each has removed what was abandoned."""


class TemporaryFolder:
    """A folder below TMPDIR that is removed at the end of the context or, if its process is killed, by the next one."""

    def __init__(self, purpose: str) -> None:
        """`purpose` is a word of the folder's name. Raises OSError where no folder can be made."""
        place = tempfile.gettempdir()
        if (os.getpid(), place) not in _swept:
            _swept.add((os.getpid(), place))
            remove_abandoned(Path(place), PREFIX)
        folder, lock = _locked(place, f"{PREFIX}{purpose}-")
        self.name = str(folder)
        self._end = weakref.finalize(self, _end, folder, lock, os.getpid())

    def cleanup(self) -> None:
        """Removes the folder; may be called twice."""
        self._end()

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _locked(place: str, prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock. Raises OSError."""
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another process has removed it before it was locked
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process is removing it
            os.close(descriptor)
            continue
        except OSError:  # no locks here: nobody removes it
            return folder, descriptor
        if folder.is_dir():
            return folder, descriptor
        os.close(descriptor)
    raise OSError(errno.EBUSY, "each new folder is removed by another process", place)


def _end(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a fork leaves it alone
        remove(folder)
        os.close(lock)


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


def remove_abandoned(place: Path, prefix: str) -> None:
    """Removes the folders below `place` that killed processes of this user have left."""
    for folder in place.glob(f"{prefix}*"):
        try:
            ours = folder.stat().st_uid == os.geteuid()
        except OSError:
            continue
        if ours:
            with alone(folder) as free:
                if free:
                    remove(folder)


def remove(folder: Path) -> None:
    """Removes a folder and all that is in it, as far as that can be removed."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
