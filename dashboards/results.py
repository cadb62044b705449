"""The results database's URL for Superset, and the descriptions of the project's views and stored questions.

Besides cli.py, this is the only file of the room that imports the rest of the project; neither runs inside Superset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from opscope.base.results_folder import results_folder
from opscope.base.visible_text import one_line
from opscope.dashboards.asset_files import read
from opscope.dashboards.bundle import Source, ViewComment
from opscope.dashboards.errors import DashboardError

SESSION = "-c timezone=UTC -c jit=off -c random_page_cost=1.1 -c work_mem=32MB"
"""Settings of Superset's sessions in PostgreSQL. Its compiler takes 0.5 s for the expressions of a chart that reads
10,000 rows, at the price of a spinning disk an index is passed over for a scan of all nights, and 10,000 ops with their
links are sorted in files where a sort has 4 MB."""


@dataclass(frozen=True)
class Results:
    """One results database."""

    url: str
    """The URL for opscope."""
    uri: str
    """The URL for Superset's SQLAlchemy 1.4: SQLite read-only, PostgreSQL through psycopg2."""
    shown: str
    """The URL without passwords."""
    file: Path | None
    """The file of a SQLite database."""


def results_uri(url: str | None) -> Results:
    """The database at `url`, by default where runs in this folder publish. Raises an error if it cannot be read."""
    import sqlalchemy as sa

    from opscope.reports.database.database import parse_url, shown, views
    from opscope.reports.database.reading import database_url, read_database

    target = database_url(url)
    parsed = parse_url(target, "--db")
    # This checks that it exists, is ours, has a known schema, and has the views that charts read.
    with read_database(target, "--db") as connection:
        inspector = sa.inspect(connection)
        missing = sorted(set(views()) - set(inspector.get_view_names()))
        missing = missing or [
            f"{name}.{column}"
            for name, dataset in read().datasets.items()
            for column in sorted(set(dataset.stored_columns) - {each["name"] for each in inspector.get_columns(name)})
        ]
    if missing:
        upgrade = f"opscope db upgrade --db {shown(parsed)}"
        raise DashboardError("--db", "the views of this opscope", f"a database without `{missing[0]}`", upgrade)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.query:
            raise DashboardError("--db", "a file of SQLite", shown(parsed), "sqlite:///results.sqlite")
        path = Path(parsed.database).absolute()
        return Results(target, f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true", shown(parsed), path)
    superset_url = _for_superset(parsed, SESSION)
    return Results(target, superset_url, shown(parsed), None)


def refuse_unknown_team(uri: str, team: str) -> None:
    """Raises an error for a team that owns nothing in the results; `uri` as Superset has the database."""
    import sqlalchemy as sa

    from opscope.reports.database.database import parse_url
    from opscope.reports.database.reading import read_database

    url = parse_url(uri, "--db")
    if url.get_backend_name() == "sqlite":
        target = f"sqlite:///{unquote((url.database or '').removeprefix('file:'))}"
    else:
        target = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with read_database(target, "--db") as connection:
        teams = connection.scalars(sa.text("SELECT DISTINCT team FROM owners ORDER BY team")).all()
    if team not in teams:
        there = ", ".join(teams) or "opscope db owners"
        raise DashboardError("--team", "a team that owns something", repr(team), there)


def _for_superset(url: Any, session: str) -> str:
    """The URL of a PostgreSQL database for psycopg2, with settings of the session."""
    mine = url.set(drivername="postgresql+psycopg2").update_query_dict({"options": session}, append=True)
    return str(mine.render_as_string(hide_password=False))


MAY_WRITE = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = CURRENT_SCHEMA() AND table_type = 'BASE TABLE'
  AND has_table_privilege(quote_ident(table_schema) || '.' || quote_ident(table_name),
                          'INSERT, UPDATE, DELETE, TRUNCATE')
ORDER BY table_name"""
"""The tables that a role may write in one way or another."""
GRANT = "GRANT SELECT, INSERT, UPDATE ON notes"


def notes_uri(url: str, results: Results) -> str:
    """The URL for writing notes, as Superset's SQLAlchemy 1.4 names it.

    Raises an error if it is another database than the results', or that of a role that may write more than notes.
    """
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError

    from opscope.reports.database.database import parse_url, shown

    parsed, other = parse_url(url, "--notes-db"), parse_url(results.url, "--db")
    if results.file is not None:
        if parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").absolute() != results.file:
            raise DashboardError("--notes-db", f"the database {results.shown}", shown(parsed), "the URL of --db")
        return f"sqlite:///file:{quote(str(results.file))}?mode=rw&uri=true"
    if (parsed.host, parsed.port, parsed.database) != (other.host, other.port, other.database):
        expected = f"another role of the database {results.shown}"
        raise DashboardError("--notes-db", expected, shown(parsed), "the URL of --db with its name and password")
    engine = sa.create_engine(parsed, poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            tables = list(connection.scalars(sa.text(MAY_WRITE)))
    except SQLAlchemyError as error:
        raise DashboardError("--notes-db", f"to read {shown(parsed)}", one_line(str(error)), GRANT) from error
    if tables != ["notes"]:
        got = f"one that may write {', '.join(tables[:3])}" if tables else "one that may write nothing"
        hint = f"a role of its own with {GRANT} TO it"
        raise DashboardError("--notes-db", "a role that may write `notes` alone", got, hint)
    return _for_superset(parsed, "-c timezone=UTC")


def artifact_roots(results: Results) -> list[Path]:
    """Default folders of a database's runs: `runs` beside its file, or below .opscope in the working directory."""
    beside = results.file.parent / "runs" if results.file else None
    return [beside if beside and beside.is_dir() else results_folder() / "runs"]


def source(results: Results, artifact_url: str) -> Source:
    """Collects what the bundle needs from the project: the comments of the views, and the stored questions."""
    from opscope.reports.database.ask import questions
    from opscope.reports.database.metrics import SHARED, metrics

    described = {name: ViewComment(entry.holds, SHARED | entry.columns) for name, entry in metrics().items()}
    asked = {entry.name: (entry.asks, entry.sql) for entry in questions().values()}
    return Source(results.uri, artifact_url, described, asked)
