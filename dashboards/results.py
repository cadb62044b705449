"""The results database as Superset names it, and what the project says of its views and questions.

Beside cli.py the only file of the room that knows the project; nothing of either runs inside Superset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from opscope.base.results_folder import results_folder
from opscope.dashboards.bundle import Source, ViewComment
from opscope.dashboards.errors import DashboardError


@dataclass(frozen=True)
class Results:
    """One results database."""

    url: str
    """As opscope names it."""
    uri: str
    """As Superset's SQLAlchemy 1.4 names it: SQLite read-only, PostgreSQL through psycopg2."""
    shown: str
    """Without passwords."""
    file: Path | None
    """The file of SQLite."""


def results_uri(url: str | None) -> Results:
    """The database at `url`, by default the one that runs publish to here. Raises an error where none can be read."""
    import sqlalchemy as sa

    from opscope.reports.database.database import parse_url, shown, views
    from opscope.reports.database.reading import database_url, read_database

    target = database_url(url)
    parsed = parse_url(target, "--db")
    # It exists, it is ours, its schema is known, and it has the views that charts read.
    with read_database(target, "--db") as connection:
        missing = sorted(set(views()) - set(sa.inspect(connection).get_view_names()))
    if missing:
        upgrade = f"opscope db upgrade --db {shown(parsed)}"
        raise DashboardError("--db", "the views of this opscope", f"a database without `{missing[0]}`", upgrade)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.query:
            raise DashboardError("--db", "a file of SQLite", shown(parsed), "sqlite:///results.sqlite")
        path = Path(parsed.database).absolute()
        return Results(target, f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true", shown(parsed), path)
    superset_url = parsed.set(drivername="postgresql+psycopg2").update_query_dict(
        {"options": "-c timezone=UTC"}, append=True
    )
    return Results(target, superset_url.render_as_string(hide_password=False), shown(parsed), None)


def artifact_roots(results: Results) -> list[Path]:
    """Where the runs of a database lie unless told: `runs` beside the file, or below .opscope here."""
    beside = results.file.parent / "runs" if results.file else None
    return [beside if beside and beside.is_dir() else results_folder() / "runs"]


def source(results: Results, artifact_url: str) -> Source:
    """What the bundle takes from the project: comments of its views, stored questions."""
    from opscope.reports.database.ask import questions
    from opscope.reports.database.metrics import SHARED, metrics

    described = {name: ViewComment(entry.holds, SHARED | entry.columns) for name, entry in metrics().items()}
    asked = {entry.name: (entry.asks, entry.sql) for entry in questions().values()}
    return Source(results.uri, artifact_url, described, asked)
