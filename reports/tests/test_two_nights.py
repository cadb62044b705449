"""The dashboards' view of any two nights has the rows of `opscope diff`, but for steps that only a history shows."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.base.labels import CHANGES, QUIET, Label
from opscope.dashboards import asset_files
from opscope.reports.compare.diff import Diff, Row
from opscope.reports.compare.night_diff import compared_nights
from opscope.reports.database.ask import ask
from opscope.reports.database.reading import read_database
from opscope.reports.demo import replay
from opscope.reports.publish.publish import publish
from opscope.reports.tests import postgres_server, test_diff
from opscope.reports.tests.night_runs import fresh, publish_night
from opscope.reports.tests.nights import Op
from opscope.reports.tests.test_questions import LAST

COLUMNS = """
op_id, label, change = label AND label IN ('NEW', 'REASON-CHANGED', 'PCC-DROP') AS news, status_before, status_now,
failed_stage, error_message, cause, expected, flaky <> '' AS flaky, uses,
pcc_before, pcc_now, cycles_before, cycles_now
"""
ABSENT = {"add": Op(uses={"a": 1})}
"""A night with less than the others: whole models are not in it, and ops of a model that is."""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every label by hand, on three dates."""
    folder = tmp_path_factory.mktemp("two_nights")
    url = fresh(folder / "db.sqlite") if request.param == "sqlite" else postgres_server.shared().database()
    for number, side in ((1, 0), (2, 1)):
        publish_night(url, folder, number, {name: row[side] for name, row in test_diff.TABLE.items() if row[side]})
    publish_night(url, folder, 3, ABSENT)
    return url


@pytest.fixture(scope="module")
def with_demo(url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same database with three nights of the demo beside them."""
    folder = tmp_path_factory.mktemp("demo")
    for night in replay.nights(LAST, 0):
        if night.number in (12, 28, 29):
            for run_dir in replay.write_night(folder, night):
                publish(run_dir, url)
    return url


def fields(row: Row) -> tuple[Any, ...]:
    error = row.error_a if row.label == "FIXED" else row.error_b
    cause = "" if row.label == "PCC-DROP" else row.cluster[:8]
    numbers = (row.pcc_a, row.pcc_b, row.cycles_a, row.cycles_b)
    words = (row.status_a, row.status_b, row.failed_stage, error, cause, row.known, row.flaky, row.uses or None)
    return (row.op_id, row.label, row.news, *words, *numbers)


def by_history(row: Row) -> bool:
    """Whether a row is slower by what the view does not read: compile times, and measured ones."""
    return row.label == "SLOWER" and "more cycles" not in row.note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("2026-11-02", "2026-11-03"),
        ("2026-11-03", "2026-11-04"),
        ("2026-11-02", "2026-11-04"),
        ("2026-11-03", "2026-11-20"),
        ("2026-11-19", "2026-11-20"),
    ],
)
def test_the_rows_of_two_nights_are_those_of_diff(with_demo: str, before: str, now: str) -> None:
    with read_database(with_demo) as connection:
        diffs: list[Diff] = compared_nights(connection, before, now)
    labels = set()
    for diff in diffs:
        listed = [row for row in diff.rows if row.label not in QUIET and not by_history(row)]
        where = f"night = '{now} 02:00 UTC' AND night_before = '{before} 02:00 UTC' AND series = '{diff.b.series}'"
        answer = ask(with_demo, f"SELECT {COLUMNS} FROM dashboard_two_nights WHERE {where}")
        assert sorted(answer.rows) == sorted(map(fields, listed)), diff.b.series
        labels |= {row.label for row in listed}
    if (before, now) == ("2026-11-02", "2026-11-03"):
        assert labels == {*Label} - QUIET - {Label.FIRST}


def test_causes_of_the_dashboard_come_in_the_order_of_diff(url: str) -> None:
    """The most urgent label first, then the cause with the most ops, as the page's two tables by cause are sorted."""
    assets = asset_files.read()
    for chart, where in (
        ("two_nights_by_cause", "night = '2026-11-03 02:00 UTC' AND night_before = '2026-11-02 02:00 UTC'"),
        (
            "changes_by_cause",
            "night_id IN (SELECT night_id FROM nights WHERE label LIKE '2026-11-03%') AND label NOT IN ('FIRST')",
        ),
    ):
        about = assets.charts[chart]
        order = assets.datasets[about.dataset].metrics[about.params["timeseries_limit_metric"]].expression
        grouped = f"FROM {about.dataset} WHERE {where} GROUP BY change, cause ORDER BY {order} DESC"
        rows = ask(url, f"SELECT change, COUNT(DISTINCT op_id) {grouped}").rows
        words = list(CHANGES)
        places = [(words.index(change), -ops) for change, ops in rows]
        assert (places, rows[0][0]) == (sorted(places), "NEW"), chart
        assert len({change for change, _ in rows}) > 3


def test_ops_of_the_dashboard_come_in_the_order_of_diff(url: str) -> None:
    words = list(CHANGES)
    rows = ask(url, "SELECT DISTINCT place, change FROM dashboard_two_nights ORDER BY place").rows
    assert [change for _, change in rows] == [word for word in words if word in {change for _, change in rows}]
    assert len(rows) > 6
    assert asset_files.read().charts["two_nights_by_op"].params["order_by_cols"][0] == '["place", true]'
