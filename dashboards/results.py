"""The results database's URL for Superset, and the descriptions of the project's views and stored questions.

Besides cli.py, this is the only file of the room that imports the rest of the project; neither runs inside Superset.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from opscope.base.results_folder import results_folder
from opscope.dashboards.asset_files import read
from opscope.dashboards.bundle import Source, ViewComment
from opscope.dashboards.errors import DashboardError

SESSION = "-c timezone=UTC -c jit=off -c random_page_cost=1.1"
"""Settings of Superset's sessions in PostgreSQL. Its compiler takes 0.5 s for the expressions of a chart that reads
10,000 rows, and at the price of a spinning disk an index is passed over for a scan of all nights."""


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
    superset_url = parsed.set(drivername="postgresql+psycopg2").update_query_dict({"options": SESSION}, append=True)
    return Results(target, superset_url.render_as_string(hide_password=False), shown(parsed), None)


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
