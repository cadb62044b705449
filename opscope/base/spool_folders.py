"""Where runs wait for a database that was away, and where those are that it refused, for every room that names them.

    .opscope/spool/<database>/<run id>/            waits
    .opscope/spool/<database>.refused/<run id>/    was refused; reason.txt says why

`opscope publish` without a run tries both again; every other publish delivers what waits and names what was refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opscope.base.results_folder import NAME

SPOOL = Path(NAME) / "spool"
REFUSED = ".refused"
"""Ends the name of the folder of what was refused."""
REASON_FILE = "reason.txt"


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
