"""Reads files that may come from elsewhere: a pipe would wait for ever, a device has no end, so only regular files are
read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else."""
    with open(path, "rb", opener=opener) as file:
        return file.read()


def read_text(path: Path) -> str:
    """The text of a regular file. Raises OSError for anything else, UnicodeDecodeError if it is not UTF-8."""
    return read_bytes(path).decode("utf-8").replace("\r\n", "\n")


def check(path: Path) -> None:
    """Raises OSError if a file is none that has an end, or cannot be read."""
    os.close(opener(str(path), os.O_RDONLY))


def opener(path: str, flags: int) -> int:
    """The `opener` of `open` for a regular file. Raises OSError for anything else."""
    # O_NONBLOCK: opening a pipe that nobody writes to would wait.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "no regular file", path)
