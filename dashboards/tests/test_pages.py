"""The layout of a narrow window, links between dashboards, and where links to logs point."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opscope.base.places import room
from opscope.dashboards import bundle, follow
from opscope.dashboards.home import ROOM, Home, Served
from opscope.dashboards.layout import NIGHT, address, position
from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.up import artifact_command
from opscope.reports.database.database import open_database
from opscope.reports.database.owners import Rule, store_owners
from opscope.reports.tests.night_runs import fresh

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does

os.environ.setdefault("OPSCOPE_NIGHT_GRID", str(room("base/night_grid")))  # as superset.py does
sys.path.append(os.environ["OPSCOPE_NIGHT_GRID"])
import narrow  # type: ignore[import-not-found]
import night_page  # type: ignore[import-not-found]

NUMBERS = {name: number for number, name in enumerate(ASSETS.charts, 1)}


@pytest.mark.parametrize("name", ASSETS.dashboards)
def test_a_narrow_window_has_every_chart_that_it_can_show_once_in_the_same_order(name: str) -> None:
    doc = ASSETS.dashboards[name]
    wide = position(doc, ASSETS, NUMBERS)
    tree = narrow.narrow(wide, ASSETS.wide)
    rows = [tree[row] for row in tree["GRID_ID"]["children"]]
    cells = [cell for row in rows for cell in row["children"]]
    left_out = [ASSETS.charts[chart].name for chart in doc.charts if ASSETS.charts[chart].wide]
    assert cells[1:] == [f"CHART-{chart}" for chart in doc.charts if ASSETS.charts[chart].name not in left_out]
    assert {key for key in tree if key.startswith("CHART-")} == set(cells[1:])
    text = tree["MARKDOWN-0"]["meta"]["code"]
    assert all(f"*{title}*" in text for title in left_out)
    assert ("A wider window" in text) == bool(left_out)
    for row in rows:
        widths = [tree[cell]["meta"]["width"] for cell in row["children"]]
        assert sum(widths) == 12
        heights = [(wide[cell]["meta"]["height"], tree[cell]["meta"]["height"]) for cell in row["children"]]
        assert len(widths) == 1 or all(before <= 30 and now >= narrow.PAIRED for before, now in heights)
        assert all(tree[cell]["parents"][-1] == row["id"] for cell in row["children"])


def test_what_has_a_bar_a_column_or_a_line_for_each_name_is_not_for_a_telephone() -> None:
    wide = {name for name, chart in ASSETS.charts.items() if chart.wide}
    assert {"coverage_heat", "stage_by_model", "supported_by_dtype", "cycles_by_model", "lacking_by_night"} <= wide
    assert not {"failing_by_night", "changes_by_night", "unlock_curve", "readiness", "sentence"} & wide


@pytest.mark.parametrize("name", ASSETS.dashboards)
def test_every_dashboard_leads_to_all_others_and_says_what_to_do(name: str) -> None:
    doc = ASSETS.dashboards[name]
    head = position(doc, ASSETS, NUMBERS)["MARKDOWN-0"]["meta"]["code"]
    assert {slug for slug in ASSETS.slugs if f"]({address(slug)})" in head} == set(ASSETS.slugs) - {doc.slug}
    assert doc.text.strip() in head


def test_the_page_of_the_night_leads_to_dashboards_and_reads_the_results() -> None:
    assert set(night_page.LINKS) <= {(page.title, page.slug) for page in ASSETS.dashboards.values()}
    assert night_page.DATABASE == bundle.DATABASE_NAME
    assert night_page.PATH == NIGHT


def test_a_team_that_no_rule_names_is_said_to_be_none(tmp_path: Path) -> None:
    """A page without a cause would read as good news."""
    url = fresh(tmp_path / "db.sqlite")
    nights, now = night_page.Nights(url), datetime.now(UTC)
    asked = {"nobody's": nights.grid(now, "maths", "night")[2], "all": nights.grid(now, "", "night")[2]}
    with open_database(url) as connection:
        store_owners(connection, [Rule("maths", op="stablehlo.add"), Rule("others")])
    asked |= {team: nights.grid(now, team, "night")[2] for team in ("maths", "math")}
    assert asked == {"nobody's": [], "all": None, "maths": None, "math": ["maths", "others"]}


def test_run_folders_are_served_from_wherever_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert artifact_command("127.0.0.1", 1, [Path("demo/runs")], [])[-1] == str(tmp_path / "demo" / "runs")


def test_a_log_is_asked_for(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path)
    row = {"link": "dashboard_ops.log", "leads_to": "http://127.0.0.1:1/r/a.txt", "error": ""}
    home.remember(Served("sqlite:///x", "x", "127.0.0.1", 1, "", "http://127.0.0.1:1", False))
    assert "does not run" in follow.log(row, home)["not_followed"]
    home.remember(Served("sqlite:///x", "x", "127.0.0.1", 1, "", "https://logs.invalid", False))
    assert "refused" in follow.log(row, home)["error"]
