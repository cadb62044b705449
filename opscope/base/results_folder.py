"""`.opscope`: the default folder for the runs, nights and database of a project. Git ignores it."""

from __future__ import annotations

import contextlib
from pathlib import Path

NAME = ".opscope"


def results_folder(root: Path | None = None) -> Path:
    """The results folder of `root`, by default of the current folder; it need not exist."""
    return (root or Path.cwd()) / NAME


def make_folder(path: Path) -> Path:
    """Creates `path` with its parents; a results folder among them gets a .gitignore, as results are no sources.

    Raises OSError where the disk takes no folder.
    """
    path.mkdir(parents=True, exist_ok=True)
    for folder in (path, *path.parents):
        ignored = folder / ".gitignore"
        if folder.name == NAME and not ignored.exists():
            with contextlib.suppress(OSError):  # a disk that refuses this one refuses what follows, which says so
                ignored.write_text("*\n", encoding="utf-8")
    return path
