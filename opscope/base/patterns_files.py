"""The files that a pattern finds, as backends and models declare by patterns what their tools are made of."""

from __future__ import annotations

import glob
import os
from pathlib import Path


def of(folder: Path, pattern: str) -> list[Path]:
    """The files that a pattern finds, which begins in `folder` where it is relative; all files of a folder."""
    if Path(pattern).is_absolute():
        found = [Path(path) for path in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute
    else:
        found = list(folder.glob(pattern))
    return sorted(inner for path in found for inner in ([path] if path.is_file() else below(path)))


def below(folder: Path) -> list[Path]:
    """All files below a folder, also behind links, but the compiled ones of Python."""
    files: list[Path] = []
    known: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = [] if real in known else [name for name in folders if name != "__pycache__"]
        files += [] if real in known else [path for path in (Path(place, name) for name in names) if path.is_file()]
        known.add(real)
    return files
