"""The files of the results database: where it is by default, and the migrations that this opscope has.

Without SQLAlchemy, whose import takes longer than most queries.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from opscope.base.results_folder import results_folder

ROOM = Path(__file__).parent


def default_url(root: Path | None = None) -> str:
    """The database that a run publishes to by default: `<root>/.opscope/opscope.sqlite`."""
    return file_url(results_folder(root) / "opscope.sqlite")


def file_url(path: Path) -> str:
    """The URL of the SQLite file at `path`: what means something else in a URL is escaped."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


@cache
def numbers() -> tuple[str, ...]:
    """The numbers of the migrations, from their file names, oldest first."""
    return tuple(sorted(path.name[:4] for path in (ROOM / "migrations" / "versions").glob("[0-9]*.py")))


def head() -> str:
    """The newest migration's number."""
    return numbers()[-1]
