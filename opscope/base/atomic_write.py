"""Writes files atomically: to a temporary file beside it, which is then renamed. No reader sees half a file."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from opscope.base.results_folder import make_folder


def write_whole(path: Path, content: str | bytes | Iterable[str | bytes], *, permissions: int = 0o666) -> None:
    """Writes a file and creates its folder if needed. Text is written as UTF-8; of two simultaneous writers, one wins.

    `content` may come piece by piece. Raises OSError if the disk refuses it, and what the pieces raise. An earlier file
    is then unchanged, and no temporary file is left.
    """
    pieces = [content] if isinstance(content, str | bytes) else content
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}")
    try:
        make_folder(path.parent)
        part.unlink(missing_ok=True)  # left by a killed process with the same number
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, permissions)) as file:
            for piece in pieces:
                file.write(piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace"))
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            part.unlink(missing_ok=True)
        raise
