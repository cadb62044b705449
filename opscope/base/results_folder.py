"""`.opscope`: the default folder for the runs, nights and database of a project. Git ignores it.

    .opscope/spool/<database>/<run id>/            waits for a database that was away
    .opscope/spool/<database>.refused/<run id>/    was refused by it; reason.txt says why

`opscope publish` without a run tries both again; every other publish delivers what waits and names what was refused.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

NAME = ".opscope"
SPOOL = Path(NAME) / "spool"
REFUSED = ".refused"
"""Ends the name of the folder of what was refused."""
REASON_FILE = "reason.txt"


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


# --- what a database refused


@dataclass(frozen=True)
class SetAside:
    """A run, or a report of a benchmark, that a database refused."""

    folder: Path
    reason: str

    @property
    def line(self) -> str:
        """What is said of it: where it lies, and why."""
        return f"refused and set aside in {self.folder}: {self.reason}"


def set_aside(root: Path, database: str = "*") -> list[SetAside]:
    """What was refused below `root`: by one database, named as its folder, or by all."""
    refused = sorted(folder for folder in (root / SPOOL).glob(f"{database}{REFUSED}/*") if folder.is_dir())
    return [SetAside(folder, _reason(folder / REASON_FILE)) for folder in refused]


def _reason(path: Path) -> str:
    try:
        return " ".join(path.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return "for an unknown reason"
