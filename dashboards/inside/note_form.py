"""Where the page /night/ writes a note about a cause: into the table `notes` and nowhere else.

The connection is of its own (`dashboard up --notes-db`). Of PostgreSQL, its role may write that table alone; SQLite has
no roles, so whatever else a statement would write is refused here. Visitors without an account write nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timezone
from typing import Any
from urllib.parse import urlencode

import note_rules

PATH = "/night/note"
LONGEST = 200
"""Characters of a value in the address of the page."""
WRITE = """
INSERT INTO notes (cause, text, author, written, until) VALUES (:cause, :text, :author, :written, :until)
ON CONFLICT (cause) DO UPDATE SET text = excluded.text, author = excluded.author, written = excluded.written,
                                  until = excluded.until"""
READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION})
CHANGES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE})


def address(path: str, arguments: Mapping[str, str]) -> str:
    """`path` with what the page was asked to show: releases in place of nights, or the causes of one owner."""
    query = urlencode({name: arguments[name][:LONGEST] for name in ("axis", "owner") if arguments.get(name)})
    return f"{path}?{query}" if query else path


class Notes:
    """The table of notes of one results database."""

    def __init__(self, uri: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy.pool import NullPool

        self._engine = sa.create_engine(uri, poolclass=NullPool)
        self._write = sa.text(WRITE)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", lambda connection, _: connection.set_authorizer(allowed))

    def write(self, note: dict[str, str]) -> None:
        """Stores a note in place of the one that its cause has. Raises SQLAlchemyError."""
        with self._engine.begin() as connection:
            connection.execute(self._write, note)


def allowed(action: int, table: str | None, *_: object) -> int:
    """Whether SQLite may do something on this connection."""
    wanted = action in READS or (action in CHANGES and table == "notes")
    return sqlite3.SQLITE_OK if wanted else sqlite3.SQLITE_DENY


def read(form: Any, author: str, causes: Collection[str], now: datetime) -> tuple[dict[str, str], str]:
    """The note of a form, and why it is not taken, empty if it is. `causes`: those that the page shows."""
    text = " ".join("".join(each if each.isprintable() else " " for each in form.get("text", "")).split())
    cause, day = form.get("cause", ""), form.get("until", "")
    if cause not in causes:
        return {}, "expected a cause that the page shows; try to load it again"
    try:
        until = date.fromisoformat(day) if day else None
    except ValueError:
        return {}, f"until: expected a day as 2026-11-20, got {day[:20]!r}"
    if refused := note_rules.refusal(text, author, until, now.date()):
        what, expected, got = refused
        return {}, f"{ {'TEXT': 'note', '--by': 'name', '--until': 'until'}[what] }: expected {expected}, got {got}"
    written = f"{now:%Y-%m-%d %H:%M}"
    return {"cause": cause, "text": text, "author": author, "written": written, "until": f"{until or ''}"}, ""


def install(
    app: Any, uri: str, may_write: Callable[[], bool], causes: Callable[[], Collection[str]], back: str
) -> None:
    """Adds the form's address to Superset's application, which asks for the token of its pages. `back`: the page, to
    which the query of the form's address leads back (`address`)."""
    from flask import redirect, render_template_string, request
    from flask_login import current_user
    from sqlalchemy.exc import SQLAlchemyError

    notes = Notes(uri)

    def refused(why: str, status: int) -> Any:
        page = '<!DOCTYPE html><title>Note · opscope</title><p>{{ why }}.</p><p><a href="{{ back }}">Back</a></p>'
        return render_template_string(page, why=why, back=address(back, request.args)), status

    @app.route(PATH, methods=["POST"])
    def write_note() -> Any:
        if not may_write():
            return refused("Expected an account that may read the results", 403)
        now = datetime.now(timezone.utc)  # noqa: UP017 - Superset's Python may be 3.10
        try:
            note, why = read(request.form, current_user.username, causes(), now)
            if why:
                return refused(why, 400)
            notes.write(note)
        except SQLAlchemyError as error:
            return refused(f"The note was not written: {getattr(error, 'orig', None) or type(error).__name__}", 503)
        return redirect(f"{address(back, request.args)}#cause-{note['cause'][:8]}", 303)
