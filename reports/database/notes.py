"""Notes about causes of failure: what people know of one, and until when it is not to alarm anybody.

A cause has one note; another one takes its place. With a date it acknowledges the cause: nights up to that date do not
alarm for it (`Row.news`, the views `night_diff` and `dashboard_verdict`), later ones do again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime

import sqlalchemy as sa

from opscope.base.night_grid.note_rules import refusal
from opscope.base.visible_text import one_line
from opscope.harness.record.errors import InputError
from opscope.reports.database.schema import NOTES
from opscope.reports.database.upsert import upsert
from opscope.wire.note import Note


def note_of(cause: str, text: str, author: str, until: date | None, now: datetime | None = None) -> Note:
    """A note that is written now. Raises InputError for an empty or a long text, and for a date that has passed."""
    now = now or datetime.now(UTC)
    words, who = (one_line(" ".join(each.split())) for each in (text, author))
    if refused := refusal(words, who, until, now.date()):
        passed = refused[0] == "--until"
        raise InputError(*refused, "opscope note --remove CAUSE" if passed else "a sentence, and a link to the rest")
    last = f"{until}" if until is not None else ""
    return Note(cause=cause, text=words, author=who, written=f"{now:%Y-%m-%d %H:%M}", until=last)


def read_notes(connection: sa.Connection) -> Mapping[str, Note]:
    """Cause -> its note."""
    return {row["cause"]: Note(**row) for row in connection.execute(_NOTES).mappings()}


_NOTES = sa.select(NOTES).order_by(NOTES.c.written, NOTES.c.cause)


def write_note(connection: sa.Connection, note: Note) -> None:
    """Stores the note in place of the one that the cause has."""
    values = {column.name: getattr(note, column.name) for column in NOTES.columns}
    upsert(connection, NOTES, [values])


def remove_note(connection: sa.Connection, cause: str) -> None:
    """Removes the note of a cause."""
    connection.execute(sa.delete(NOTES).where(NOTES.c.cause == cause))
