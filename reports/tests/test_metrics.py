"""What the views hold is explained, column by column."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from opscope.reports.database.database import open_database, views
from opscope.reports.database.metrics import metrics
from opscope.reports.tests.night_runs import fresh


@pytest.fixture(scope="module")
def columns_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    with open_database(fresh(tmp_path_factory.mktemp("metrics") / "db.sqlite")) as connection:
        inspector = sa.inspect(connection)
        return {name: [column["name"] for column in inspector.get_columns(name)] for name in views()}


def test_every_column_of_every_view_is_explained(columns_of: dict[str, list[str]]) -> None:
    for name, metric in metrics().items():
        assert metric.holds.endswith("."), name
        assert all(metric.meaning(column) for column in columns_of[name])
        assert set(metric.columns) <= set(columns_of[name]), name


def test_a_view_stands_after_those_that_it_reads() -> None:
    order = list(views())
    assert order.index("night_diff") < order.index("night_failures") < order.index("model_blockers")
