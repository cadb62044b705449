"""Digests of files that were read before: a file with the same inode, size and times is not read again.

So git knows which files have changed. The time of the last change of a file's inode is one of them, which no program
sets at will. A file that changed within the last two seconds is read each time, since clocks of file systems are
coarse. A run reads a thousand source files for the keys of its caches, several times over; with the digests that the
run before has left in a file of the cache, it reads none of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path

from opscope.base import damage, regular_file, stored

SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which a file's digest is kept."""
MOST = 20_000
"""Files in the file that is kept."""

_known: dict[str, tuple[tuple[int, ...], str]] = {}
"""File -> device, inode, size and times, and the digest of its content then."""
_loaded: set[Path] = set()
_news = False


def of(path: str) -> str:
    """SHA-256 of a file's content, in hex. Raises OSError if it is no regular file that can be read."""
    global _news
    status = os.stat(path)  # noqa: PTH116 - once for each of a thousand files
    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = _known.get(path)
    if known is not None and known[0] == mark:
        return known[1]
    with open(path, "rb", buffering=0, opener=regular_file.opener) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if stat.S_ISREG(status.st_mode) and changed < time.time_ns() - SETTLED:
        _known[path], _news = (mark, digest), True
    return digest


def of_mark(path: str, mark: tuple[int, ...]) -> str | None:
    """The digest of what a file was when it had this mark; None if it is not known."""
    known = _known.get(path)
    return known[1] if known is not None and known[0] == mark else None


def load(place: Path) -> None:
    """Takes over what an earlier process kept in a file, once. A file that is damaged, or is not there, is none."""
    if place in _loaded:
        return
    _loaded.add(place)
    with contextlib.suppress(OSError, damage.Damaged, KeyError, TypeError, ValueError):
        files = stored.read_json(place)["files"]
        _known.update({path: (tuple(mark), digest) for path, (*mark, digest) in files.items() if path not in _known})


def save(place: Path) -> None:
    """Keeps what is known in a file, if there is news since the last time; not where the disk refuses it."""
    global _news
    if not _news:
        return
    _news = False
    newest = list(_known.items())[-MOST:]
    with contextlib.suppress(OSError):
        stored.write_json(place, {"files": {path: [*mark, digest] for path, (mark, digest) in newest}})
