"""Causes stored by rules of before: they are made anew, their notes pass on, and nothing is new by that."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.reports.database.database import SETTINGS, open_database
from opscope.reports.database.notes import note_of, read_notes, write_note
from opscope.reports.database.schema import OP_TESTS
from opscope.reports.publish.counting import open_counted
from opscope.reports.publish.stored_causes import recompute
from opscope.reports.tests.night_runs import fresh, publish_night
from opscope.reports.tests.nights import Op

REFUSED = {
    name: Op("compile_failed", {"a": 1}, error=f"failed to legalize operation '{name}'") for name in ("sort", "cosine")
}
OPS = REFUSED | {"tan": Op("compile_failed", {"a": 1}, error="no tan here"), "add": Op(uses={"a": 1})}
OLD = "0123456789ab"
"""What both refusals were in a database of earlier rules."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two equal nights, stored when both refusals were one cause, which is acknowledged."""
    url = fresh(tmp_path / "db.sqlite")
    for number in (1, 2):
        publish_night(url, tmp_path / str(number), number, OPS)
    with open_database(url) as connection:
        refused = OP_TESTS.c.op_name.in_([f"stablehlo.{name}" for name in REFUSED])
        assert connection.execute(sa.update(OP_TESTS).where(refused).values(cause=OLD)).rowcount == 4
        connection.execute(sa.text("UPDATE night_fixes SET cluster = :old WHERE cluster <> ''"), {"old": OLD})
        write_note(connection, note_of(OLD, "waits for the next release", "ann", date(2999, 1, 1)))
        connection.execute(sa.update(SETTINGS).where(SETTINGS.c.name == "counted_by").values(value="4"))
    return url


def causes(connection: sa.Connection) -> dict[str, set[str]]:
    rows = connection.execute(sa.select(OP_TESTS.c.op_name, OP_TESTS.c.cause).where(OP_TESTS.c.cause.is_not(None)))
    found: dict[str, set[str]] = {}
    for name, cause in rows:
        found.setdefault(name, set()).add(cause)
    return found


def test_each_part_of_a_split_cause_has_its_note_and_nothing_is_new(url: str, tmp_path: Path) -> None:
    with open_counted(url) as connection:
        (sort,), (cosine,), (tan,) = (causes(connection)[f"stablehlo.{name}"] for name in ("sort", "cosine", "tan"))
        assert len({sort, cosine, tan, OLD}) == 4
        notes = read_notes(connection)
        assert notes.keys() == {sort, cosine}
        assert {(note.text, note.until) for note in notes.values()} == {("waits for the next release", "2999-01-01")}
        offered = set(connection.scalars(sa.text("SELECT cluster FROM night_fixes WHERE cluster <> ''")))
        assert offered == {sort, cosine, tan}
    publish_night(url, tmp_path / "3", 3, OPS)
    with open_database(url) as connection:
        newest = "SELECT label, news FROM night_diff WHERE started = (SELECT MAX(started) FROM night_diff)"
        assert {(label, int(news)) for label, news in connection.execute(sa.text(newest))} == {("PERSISTING", 0)}


def test_a_part_keeps_the_note_that_it_has(url: str) -> None:
    with open_database(url) as connection:
        recompute(connection)
        (sort,), (cosine,) = (causes(connection)[f"stablehlo.{name}"] for name in REFUSED)
        write_note(connection, note_of(sort, "its own", "bob", None))
        refused = OP_TESTS.c.cause.in_([sort, cosine])
        connection.execute(sa.update(OP_TESTS).where(refused).values(cause=OLD))
        write_note(connection, note_of(OLD, "of both", "ann", None))
        connection.execute(sa.text("DELETE FROM notes WHERE cause = :cosine"), {"cosine": cosine})
        recompute(connection)
        assert {cause: note.text for cause, note in read_notes(connection).items()} == {
            sort: "its own",
            cosine: "of both",
        }
