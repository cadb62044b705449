"""The files that a pattern finds, as backends and models declare by patterns what their tools are made of."""

from __future__ import annotations

import glob
from pathlib import Path


def of(folder: Path, pattern: str) -> list[Path]:
    """The files that a pattern finds, which begins in `folder` where it is relative; all files of a folder."""
    if Path(pattern).is_absolute():
        found = [Path(path) for path in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute
    else:
        found = list(folder.glob(pattern))
    return sorted(inner for path in found for inner in ([path] if path.is_file() else below(path)))


def below(folder: Path) -> list[Path]:
    """All files below a folder but the compiled ones of Python."""
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
