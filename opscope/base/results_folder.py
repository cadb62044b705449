"""`.opscope`: the default folder for the runs, nights and database of a project. Git ignores it."""

from __future__ import annotations

import contextlib
from pathlib import Path

NAME = ".opscope"


def results_folder(root: Path | None = None) -> Path:
    """The results folder of `root`, by default of the current folder; it need not exist."""
    return (root or Path.cwd()) / NAME


def make_folder(path: Path) -> Path:
    """Creates `path` with its parents. A results folder among them gets a .gitignore, because results are no sources.

    Raises OSError if the folder cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True)
    for folder in (path, *path.parents):
        ignored = folder / ".gitignore"
        if folder.name == NAME and not ignored.exists():
            with contextlib.suppress(OSError):  # if the disk refuses this file, the next write reports it
                ignored.write_text("*\n", encoding="utf-8")
    return path
