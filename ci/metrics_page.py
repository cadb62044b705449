"""Prints docs/metrics.md, which explains every view of the results database and its columns: `make metrics`."""

from __future__ import annotations

import sqlalchemy as sa

from opscope.base.temporary_folder import TemporaryFolder
from opscope.reports.database.ask import questions
from opscope.reports.database.database import open_database, views
from opscope.reports.database.frame_types import OF_VIEW, type_of
from opscope.reports.database.metrics import SHARED, metrics

HEAD = """# Metrics

What is counted, over what, and what is left out: the SQL views of the results database, which command line,
`report.html` and dashboards read. Written by `make metrics` from the comments of [the
views](../reports/database/views). A column that a view does not explain means the same everywhere and is in the table
of columns of many views. Types are those of the DataFrames that `opscope.reports.exports.frames` makes of each view
([in Python](results.md#in-python-opscopeframes)).
"""
QUESTIONS = "../reports/database/queries"
TABLE = "| column | type | meaning |\n|---|---|---|"


def markdown(columns_of: dict[str, list[str]]) -> str:
    """Renders the page as Markdown. `columns_of`: view -> its columns in order."""
    parts = [HEAD]
    shared: set[str] = set()
    for name, metric in metrics().items():
        own = [column for column in columns_of[name] if column in metric.columns]
        rest = [column for column in columns_of[name] if column not in metric.columns]
        shared |= set(rest)
        parts.append(f"## `{name}`\n\n{metric.holds}\n")
        if own:
            rows = "\n".join(f"| `{column}` | {type_of(name, column)} | {metric.columns[column]} |" for column in own)
            parts.append(f"{TABLE}\n{rows}\n")
        if rest:
            unlike = OF_VIEW.get(name, {})
            names = (f"`{column}`{f' ({unlike[column]})' if column in unlike else ''}" for column in rest)
            parts.append(f"Also {', '.join(names)}.\n")
    rows = "\n".join(f"| `{column}` | {type_of('', column)} | {SHARED[column]} |" for column in sorted(shared))
    parts.append(f"## Columns of many views\n\n{TABLE}\n{rows}\n")
    stored = "\n".join(
        f"| [`{each.name}`]({QUESTIONS}/{each.name}.sql) | {each.asks} |" for each in questions().values()
    )
    parts.append(f"## Stored questions\n\nWhat `opscope sql NAME` answers.\n\n| name | asks |\n|---|---|\n{stored}\n")
    return "\n".join(parts)


def main() -> None:
    """Prints the page, with the columns of a fresh database."""
    with TemporaryFolder("metrics") as folder, open_database(f"sqlite:///{folder}/db.sqlite") as connection:
        inspector = sa.inspect(connection)
        print(markdown({name: [c["name"] for c in inspector.get_columns(name)] for name in views()}), end="")


if __name__ == "__main__":
    main()
