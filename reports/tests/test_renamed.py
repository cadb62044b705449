"""Old names of views and columns stand beside the new ones until the next release, and nothing of ours uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.dashboards import bundle
from opscope.dashboards.viz import columns, metrics
from opscope.reports.database.database import open_database, views
from opscope.reports.database.renamed import COLUMNS, UNTIL, VIEWS
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.sample_run import make_run

QUERIES = Path(__file__).parent.parent / "queries"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Connection]:
    folder = tmp_path_factory.mktemp("renamed")
    url = fresh(folder / "db.sqlite")
    publish(make_run(folder / "run"), url)
    with open_database(url) as connection:
        yield connection


@pytest.mark.parametrize("view", COLUMNS)
def test_an_old_column_holds_what_the_new_one_holds(database: sa.Connection, view: str) -> None:
    rows = database.execute(sa.text(f"SELECT * FROM {view}")).mappings().all()
    for old, new in COLUMNS[view].items():
        assert [row[old] for row in rows] == [row[new] for row in rows]
        assert not re.search(rf"\bAS {old}\b", views()[view].rpartition("\nSELECT")[2]), "only renamed.py has it"


def test_an_old_view_holds_what_the_new_one_holds(database: sa.Connection) -> None:
    for old, new in VIEWS.items():
        kept, now = (database.execute(sa.text(f"SELECT * FROM {name}")).all() for name in (old, new))
        assert kept == now
    assert database.execute(sa.text("SELECT * FROM board_ops")).all()


def test_old_names_go_with_the_version_that_is_announced() -> None:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")[:2]))

    assert numbers(version("opscope")) < numbers(UNTIL), (
        "delete reports/database/renamed.py, and the old names in assets"
    )


def test_charts_and_stored_questions_use_the_new_names() -> None:
    assets = bundle.read()
    for name, doc in assets.charts.items():
        params = bundle.chart_params(doc, assets)
        about = assets.datasets[doc["dataset"]]
        used = {*columns(params), *(condition["subject"] for condition in params["adhoc_filters"])}
        used |= {about["columns"][column].get("text_of", column) for column in used}
        assert not used & set(COLUMNS.get(doc["dataset"], {})), name
        assert not [metric for metric in metrics(params) if "(old name)" in about["metrics"][metric]["label"]], name
    texts = {**views(), **{path.stem: path.read_text(encoding="utf-8") for path in QUERIES.glob("*.sql")}}
    for name, text in texts.items():
        assert not set(re.findall(r"\b(?:FROM|JOIN) (\w+)", text)) & set(VIEWS), name
