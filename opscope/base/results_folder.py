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


def remove_empty(path: Path) -> None:
    """Removes `path` if nothing is in it, and then the results folder around it if that has nothing else in it."""
    with contextlib.suppress(OSError):
        if path.exists():
            path.rmdir()
        results = next((folder for folder in path.parents if folder.name == NAME), None)
        if results is None:
            return
        for folder in path.parents:
            if folder == results:
                break
            folder.rmdir()
        if [each.name for each in results.iterdir()] == [".gitignore"]:
            (results / ".gitignore").unlink()
            results.rmdir()
