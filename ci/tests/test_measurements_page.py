"""docs/measurements.md is what docs/measurements.yaml says, and each figure there has its table, date and value."""

from __future__ import annotations

import datetime
from typing import Any

import yaml

from ci import measurements_page

DATA: dict[str, Any] = yaml.load(measurements_page.DATA.read_text(encoding="utf-8"), yaml.CSafeLoader)
TABLES = [(f"{part['section']}: {table['title']}", table) for part in DATA["sections"] for table in part["tables"]]


def test_the_page_is_up_to_date() -> None:
    written = measurements_page.PAGE.read_text(encoding="utf-8")
    assert written == measurements_page.page(DATA), (
        "docs/measurements.md: expected it as its rows say; try `make measurements`"
    )


def test_each_figure_has_a_date_and_a_value() -> None:
    for name, table in TABLES:
        keys = {"title", "date", "machine", "command", "about", "superseded", "rows", "note"}
        assert table.keys() <= keys, name
        subject = next(iter(table["rows"][0]))
        for row in table["rows"]:
            values = [value for key, value in row.items() if key != "superseded"]
            assert all(isinstance(value, str) and "|" not in value for value in values), (name, row)
            assert row.keys() - {subject, "limit", "peer", "date", "superseded"}, f"{name}: {row}: expected a figure"
            datetime.date.fromisoformat(row.get("date", table["date"]))


HEAD = "## S\n\n| what | figure | limit | date |\n| --- | --- | --- | --- |\n"


def section(*tables: dict[str, Any]) -> dict[str, Any]:
    return {"machine": "2 cores", "sections": [{"section": "S", "tables": list(tables)}]}


def test_a_figure_that_a_later_one_supersedes_is_kept_off_the_page() -> None:
    old, new = ({"what": "t", "figure": figure, "limit": "5 s"} for figure in ("7 s", "4 s"))
    table = {"title": "T", "date": "2026-01-02", "command": "a; b", "rows": [{**old, "superseded": True}, new]}
    tables = [table, {**table, "title": "U", "superseded": True}]
    text = measurements_page.page(section(*tables))
    assert text.endswith(f"{HEAD}| t | 4 s | 5 s | 2026-01-02 |\n")


def test_a_long_figure_is_cut_where_a_part_of_it_ends_and_remarks_stay_in_the_file() -> None:
    row = {
        "model": "net (load 3 (or 4)), cold; " + "warm " * 10,
        "before": "9 s",
        "now": "5 s (8 s); **4 s** " + "of `a b c d e f g`",
        "limit": "6 s: met",
    }
    text = measurements_page.page(section({"title": "T", "date": "2026-01-02", "rows": [row]}))
    cells = ("net, cold; warm warm warm warm warm warm …", "5 s; 4 s of `a b` …", "6 s: met", "2026-01-02")
    assert text.endswith(f"{HEAD}| {' | '.join(cells)} |\n")


def test_a_figure_without_a_limit_is_found_by_its_words() -> None:
    rows = [{"what": "Cold start", "figure": "3 s"}, {"what": "warm", "figure": "1 s"}]
    data = section({"title": "Runs", "date": "2026-01-02", "command": "run it", "rows": rows})
    assert "##" not in measurements_page.page(data)
    found = yaml.load(measurements_page.whole(data, ["runs", "cold"]), yaml.CSafeLoader)
    assert found == [{"title": "Runs", "date": "2026-01-02", "command": "run it", "rows": rows[:1]}]
    assert measurements_page.whole(data, ["cold", "hot"]) == ""


def test_the_page_stays_short() -> None:
    assert len(measurements_page.PAGE.read_text(encoding="utf-8").split()) <= 10_000
