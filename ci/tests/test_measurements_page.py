"""docs/measurements.md is what docs/measurements.yaml says, and each figure there has its table, date and value."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import yaml

from ci import measurements_page

DATA: dict[str, Any] = yaml.safe_load(measurements_page.DATA.read_text(encoding="utf-8"))
TABLES = [
    pytest.param(table, id=f"{part['section']}: {table['title']}")
    for part in DATA["sections"]
    for table in part["tables"]
]


def test_the_page_is_up_to_date() -> None:
    written = measurements_page.PAGE.read_text(encoding="utf-8")
    assert written == measurements_page.page(DATA), (
        "docs/measurements.md: expected it as its rows say; try `make measurements`"
    )


@pytest.mark.parametrize("table", TABLES)
def test_each_figure_has_a_date_and_a_value(table: dict[str, Any]) -> None:
    assert table.keys() <= {"title", "date", "machine", "command", "about", "superseded", "rows", "note"}
    subject = next(iter(table["rows"][0]))
    for row in table["rows"]:
        assert all(isinstance(value, str) and "|" not in value for name, value in row.items() if name != "superseded")
        assert row.keys() - {subject, "limit", "peer", "date", "superseded"}, f"{row}: expected a figure"
        datetime.date.fromisoformat(row.get("date", table["date"]))


def test_a_figure_that_a_later_one_supersedes_is_kept_off_the_page() -> None:
    old, new = ({"what": "t", "figure": figure, "limit": "5 s"} for figure in ("7 s", "4 s"))
    table = {"title": "T", "date": "2026-01-02", "command": "a; b", "rows": [{**old, "superseded": True}, new]}
    tables = [table, {**table, "title": "U", "superseded": True}]
    text = measurements_page.page({"machine": "2 cores", "sections": [{"section": "S", "tables": tables}]})
    assert text.endswith(
        "## S\n\n**T** (2026-01-02: `a`, `b`).\n\n| what | figure | limit |\n| --- | --- | --- |\n| t | 4 s | 5 s |\n"
    )
