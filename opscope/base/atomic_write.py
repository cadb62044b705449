"""Writes files atomically: to a temporary file beside it, which is then renamed. No reader sees half a file."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from opscope.base.results_folder import make_folder


def write_whole(path: Path, content: str | bytes | Iterable[str | bytes], *, permissions: int = 0o666) -> None:
    """Writes a file and creates its folder if needed. Text is written as UTF-8; of two simultaneous writers, one wins.

    `content` may come piece by piece. Raises OSError if the disk refuses it, and what the pieces raise. An earlier file
    is then unchanged, and no temporary file is left.
    """
    pieces = [content] if isinstance(content, str | bytes) else content
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_native_id()}")  # noqa: PTH118 - once an op
    try:
        with _new(part, permissions) as file:
            for piece in pieces:
                file.write(piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace"))
        os.replace(part, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            os.unlink(part)  # noqa: PTH108
        raise


def new_folder(place: Path, prefix: str) -> Path:
    """Makes a folder with a name of its own, to be filled and renamed. Others may read it as far as the umask allows,
    who may share a cache; one of `mkdtemp` is its user's alone. Raises OSError."""
    folder = place / f"{prefix}{os.urandom(8).hex()}"
    folder.mkdir()
    return folder


def _new(part: str, permissions: int) -> BinaryIO:
    """A new temporary file, in a folder that is created if needed. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(part, flags, permissions)
    except FileNotFoundError:
        make_folder(Path(part).parent)
        descriptor = os.open(part, flags, permissions)
    except FileExistsError:  # left by a killed process with the same number
        os.unlink(part)  # noqa: PTH108
        descriptor = os.open(part, flags, permissions)
    return os.fdopen(descriptor, "wb")
