"""Asks one query of a file of SQLite, without SQLAlchemy, whose import takes longer than most queries.

Whatever is not as expected gives no answer here; reports/database/reading.py then tries the same and says why.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from opscope.reports.database.files import head
from opscope.reports.database.reading_statement import confine_sqlite

BEGINNING = "sqlite:///"
BACKUP = "a backup, or a new database and publishing again"
HINTS = {sqlite3.SQLITE_NOTADB: "another file: this one is no database", sqlite3.SQLITE_CORRUPT: BACKUP}
"""Error -> what to try, where no waiting mends it."""
LEFT_BEHIND = sqlite3.SQLITE_READONLY_ROLLBACK
"""The error of who reads a file that a killed writer left in the middle."""


def path_of(url: str) -> Path | None:
    """The file that `url` names and nothing else; None for any other URL, and where there is no file."""
    name = url.removeprefix(BEGINNING)
    path = Path(unquote(name))
    return path if name not in (url, "", ":memory:") and "?" not in name and path.is_file() else None


def uri(path: Path) -> str:
    """The URI that opens `path` for reading."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"


def error_code(error: BaseException | None) -> int:
    """SQLite's primary code of a driver's error; 0 if it has none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def recover(path: Path) -> None:
    """Takes back what a killed writer had begun, where it left its journal beside the file: who only reads may not.

    Where this process may not write there, nothing happens, and reading fails with `LEFT_BEHIND`.
    """
    if Path(f"{path}-journal").exists():
        with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()


def ask(path: Path, text: str, seconds: float, most: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]]] | None:
    """The columns and at most `most` + 1 rows of a statement that reads; None if SQLite refuses anything.

    Raises TimeoutError once `seconds` are over.
    """
    end = time.monotonic() + seconds
    try:
        recover(path)
        with closing(sqlite3.connect(uri(path), uri=True, timeout=30)) as connection:
            if connection.execute("SELECT version_num FROM alembic_version").fetchall() != [(head(),)]:
                return None
            confine_sqlite(connection)
            connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)  # some hundred times a second
            answer = connection.execute(text)
            if answer.description is None:
                return None
            return tuple(column[0] for column in answer.description), answer.fetchmany(most + 1)
    except (sqlite3.Error, sqlite3.Warning) as error:
        if time.monotonic() > end:
            raise TimeoutError from error
        return None
