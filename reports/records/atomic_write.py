"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from opscope.base.results_folder import make_folder
from opscope.harness.record.errors import InputError


def write_whole(path: Path, text: str | bytes, hint: str) -> Path:
    """Writes `path`, its folder too; what is there stays if that fails. Raises InputError, with `hint` as way out."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_folder(path.parent)
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise InputError(str(path), "a place that can be written", reason, hint) from error
    return path
