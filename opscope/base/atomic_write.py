"""Files that appear whole or not at all: written beside their place and renamed, so no reader sees half of one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from opscope.base.results_folder import make_folder


def write_whole(path: Path, content: str | bytes, *, permissions: int = 0o666) -> None:
    """Writes a file, and the folder that it lies in; text as UTF-8. Of two writers at once one wins.

    Raises OSError where the disk refuses it: what was there before is still there, and nothing is beside it.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}")
    try:
        make_folder(path.parent)
        part.unlink(missing_ok=True)  # of a process of that number that was killed
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, permissions)) as file:
            file.write(data)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            part.unlink(missing_ok=True)
        raise
