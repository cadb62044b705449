"""Files by their content: a worker that received a file has it for every later op that needs it."""

from __future__ import annotations

import os
import threading
from pathlib import Path, PurePosixPath

from opscope.base.digest import file_digest

STORE_BYTES = 8 << 30
"""Bytes that are kept. The longest unused file is removed first, and is sent again when it is needed."""


def mark(path: Path) -> str:
    """Distinguishes a file from one at the same path on another machine. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def is_seen(path: Path, expected: str) -> bool:
    """Whether the file of this mark lies at a path here."""
    try:
        return mark(path) == expected
    except OSError:
        return False


class Blobs:
    """The files below one folder."""

    def __init__(self, root: Path, limit: int = STORE_BYTES) -> None:
        self._root, self._limit, self._lock = root, limit, threading.Lock()
        self._size: int | None = None
        """Bytes of all files at most; None: not yet known."""

    def has(self, digest: str) -> bool:
        """Whether a file is here; noted as used."""
        try:
            os.utime(self._root / digest)
        except OSError:
            return False
        return True

    def keep(self, digest: str, offset: int, total: int, data: bytes) -> str:
        """Takes one part of a file; the last one puts it into the store. Empty, or why it cannot be kept."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            return f"expected a SHA-256, got {digest[:80]!r}"
        part = self._root / f"{digest}.part"
        with self._lock:
            try:
                self._root.mkdir(parents=True, exist_ok=True)
                with part.open("r+b" if offset else "wb") as file:
                    file.seek(offset)
                    file.write(data)
                if offset + len(data) < total:
                    return ""
                if file_digest(part) != digest:
                    part.unlink()
                    return f"expected the content of {digest[:12]}, got another"
                part.replace(self._root / digest)
                self._shrink(total)
            except OSError as error:
                return error.strerror or str(error)
        return ""

    def place(self, digest: str, folder: Path, path: str) -> None:
        """Puts a file at `path` below `folder`. Raises FileNotFoundError if it is not here any more."""
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"expected a path below the folder, got {path!r}")
        target = folder / parts
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(self._root / digest, target)

    def _shrink(self, more: int) -> None:
        """Removes the longest unused files until the rest fits, now that there are `more` bytes."""
        if self._size is not None and self._size + more <= self._limit:
            self._size += more  # thousands of files are not asked for their sizes each time that one comes
            return
        files = sorted((p.stat().st_mtime, p.stat().st_size, p) for p in self._root.iterdir() if p.suffix != ".part")
        self._size = sum(size for _, size, _ in files)
        for _, size, path in files[:-1]:
            if self._size <= self._limit:
                return
            path.unlink(missing_ok=True)
            self._size -= size
