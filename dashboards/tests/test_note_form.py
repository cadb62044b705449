"""Notes that the page /night/ writes: what is taken, and that nothing else can be written that way."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.base.places import room
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import ROOM
from opscope.dashboards.results import notes_uri, results_uri
from opscope.reports.database.notes import note_of
from opscope.reports.publish.publish import publish
from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does
os.environ.setdefault("OPSCOPE_NIGHT_GRID", str(room("base/night_grid")))
sys.path.append(os.environ["OPSCOPE_NIGHT_GRID"])
import note_form  # type: ignore[import-not-found]

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
CAUSE = "0123456789ab"


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"cause": CAUSE, "text": "known <b>\nfrom\x00 above"}, ""),
        ({"cause": CAUSE, "text": "known", "until": "2026-11-20"}, ""),
        (
            {"cause": CAUSE, "text": "known", "until": "2026-11-19"},
            "until: expected today or a later day, got 2026-11-19",
        ),
        ({"cause": CAUSE, "text": "known", "until": "soon"}, "until: expected a day as 2026-11-20, got 'soon'"),
        ({"cause": CAUSE, "text": " \n"}, "note: expected 1 to 500 characters, got 0"),
        ({"cause": CAUSE, "text": "a" * 501}, "note: expected 1 to 500 characters, got 501"),
        ({"cause": "other", "text": "known"}, "expected a cause that the page shows; try to load it again"),
    ],
)
def test_what_a_form_may_say(form: dict[str, str], why: str) -> None:
    note, refused = note_form.read(form, "ada", {CAUSE}, NOW)
    assert refused == why
    if not why:  # the same as the command writes
        until = date.fromisoformat(form["until"]) if "until" in form else None
        assert note == vars(note_of(CAUSE, form["text"].replace("\x00", " "), "ada", until, NOW))


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, {"add": Op("crashed")}), url)
    return url


def test_after_a_note_the_page_is_as_it_was() -> None:
    asked = {"axis": "version", "owner": "kernels & Co", "next": "//elsewhere.example"}
    assert note_form.address("/night/", asked) == "/night/?axis=version&owner=kernels+%26+Co"
    assert note_form.address(note_form.PATH, {"owner": ""}) == "/night/note"


def test_a_note_takes_the_place_of_another_and_nothing_else_can_be_written(url: str, tmp_path: Path) -> None:
    notes = note_form.Notes(notes_uri(url, results_uri(url)))
    for text in ("first", "second"):
        notes.write({"cause": CAUSE, "text": text, "author": "ada", "written": "2026-11-20 09:30", "until": ""})
    with closing(sqlite3.connect(tmp_path / "db.sqlite")) as connection:
        assert connection.execute("SELECT cause, text FROM notes").fetchall() == [(CAUSE, "second")]
    for statement in ("DELETE FROM notes", "UPDATE runs SET host = ''", "DROP TABLE notes", "ATTACH 'x.db' AS x"):
        with notes._engine.connect() as connection, pytest.raises(sa.exc.DatabaseError, match="not authorized"):
            connection.exec_driver_sql(statement)


def test_notes_go_to_the_database_that_is_shown(url: str, tmp_path: Path) -> None:
    other = fresh(tmp_path / "other.sqlite")
    publish(night(tmp_path, 2, {"add": Op()}), other)
    with pytest.raises(DashboardError, match="--notes-db: expected the database sqlite:"):
        notes_uri(other, results_uri(url))


@pytest.mark.slow
def test_a_role_of_postgresql_that_may_write_more_than_notes_is_refused(tmp_path: Path) -> None:
    """The owner, a role without rights, and one with the rights that the documentation says."""
    results = postgres_server.shared().database()
    publish(night(tmp_path, 1, {"add": Op("crashed")}), results)
    shown = results_uri(results)
    with pytest.raises(DashboardError, match=r"expected a role that may write `notes` alone, got one that may write"):
        notes_uri(results, shown)
    owner = sa.create_engine(results, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        connection.exec_driver_sql("CREATE ROLE annotator LOGIN PASSWORD 'a'")
        mine = sa.make_url(results).set(username="annotator", password="a").render_as_string(hide_password=False)
        with pytest.raises(DashboardError, match="got one that may write nothing; try a role of its own with GRANT"):
            notes_uri(mine, shown)
        connection.exec_driver_sql("GRANT SELECT, INSERT, UPDATE ON notes TO annotator")
        assert notes_uri(mine, shown).startswith("postgresql+psycopg2://annotator:a@")
        annotator = sa.create_engine(mine, poolclass=sa.NullPool)
        for text in ("first", "second"):
            with annotator.begin() as own:
                until = NOW.date() + timedelta(days=9)
                own.execute(sa.text(note_form.WRITE), vars(note_of(CAUSE, text, "ada", until, NOW)))
        assert connection.exec_driver_sql("SELECT cause, text FROM notes").all() == [(CAUSE, "second")]
        connection.exec_driver_sql("DROP OWNED BY annotator")
        connection.exec_driver_sql("DROP ROLE annotator")
    owner.dispose()
