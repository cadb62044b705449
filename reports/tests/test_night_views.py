"""The views of nights, against numbers counted by hand from two small nights."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from opscope.harness.record.records import StageTime
from opscope.harness.record.stages import Stage
from opscope.reports.database.database import views
from opscope.reports.database.reading import read_database
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, publish_night, record, rows, shard_run
from opscope.reports.tests.nights import Op, night, op_id

FIRST = {
    "add": Op(uses={"a": 2, "b": 1}, cycles=100, pcc=0.999, compile_ms=10.0),
    "exp": Op("wrong_result", uses={"b": 1}, failed=Stage.COMPARE, error="PCC 0.1 is low", pcc=0.1),
    "host": Op(uses={"a": 4}, more={"ran_on": "host"}),
}
SECOND = {
    "add": Op(uses={"a": 2, "b": 1}, cycles=200, pcc=0.999, compile_ms=10.0),
    "exp": Op(uses={"b": 1}, cycles=10, more={"cycles_error": 25.3}),
    "host": Op("compile_failed", uses={"a": 4}, error="no lowering", more={"expected": "notyet: host"}),
    "sort": Op("crashed", uses={"b": 3}, error="signal", more={"artifact": "artifacts/x/e.txt"}),
    "lost": Op("unsplittable", uses={"a": 1}, error="no body"),
    "idle": Op("not_run", uses={"a": 1}),
}
NIGHT = "nightly-20261103-020000"


def fill(url: str, folder: Path) -> None:
    publish_night(url, folder, 1, FIRST)
    night = record(2, models=("a", "b", "c"))
    publish(shard_run(folder, night, 2, SECOND), url)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("views")
    url = fresh(folder / "db.sqlite")
    fill(url, folder)
    return url


EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "SELECT night_status, missing, asked, ran, models_missing, changed, nights_ago FROM night_status "
    "ORDER BY started": [("complete", "", 2, 2, 0, "", 1), ("partial", "model c", 3, 2, 1, "compiler", 0)],
    # Of five attempted ops two are right now; of the three in both nights add and exp are, add and host were.
    "SELECT scope, ran_on, attempted_ops, right_ops, attempted_uses, right_uses FROM night_rates "
    f"WHERE night_id = '{NIGHT}' ORDER BY scope, ran_on": [
        ("all", "simulator", 5, 2, 12, 4),
        ("like for like", "host", 3, 0, 8, 0),
        ("like for like", "simulator", 3, 2, 8, 4),
    ],
    f"SELECT status, is_expected, ops, uses FROM night_statuses WHERE night_id = '{NIGHT}' ORDER BY status": [
        ("compile_failed", 1, 1, 4),
        ("crashed", 0, 1, 3),
        ("not_run", 0, 1, 1),
        ("success", 0, 2, 4),
        ("unsplittable", 0, 1, 1),
    ],
    "SELECT model, op_kind, attempted_ops, right_ops, host_ops, bad_ops FROM night_coverage "
    f"WHERE night_id <> '{NIGHT}' ORDER BY model, op_kind": [
        ("a", "eltwise", 1, 1, 0, 0),
        ("a", "other", 1, 0, 1, 0),
        ("b", "eltwise", 1, 1, 0, 0),
        ("b", "other", 1, 0, 0, 1),
    ],
    # Of four ops of a one is right; one was not attempted, and is not right for that.
    "SELECT model, op_kind, ops, attempted_ops, right_ops, bad_ops, uses, attempted_uses, right_uses, pass_rate "
    f"FROM night_coverage WHERE night_id = '{NIGHT}' ORDER BY model, op_kind": [
        ("a", "eltwise", 1, 1, 1, 0, 2, 2, 2, 1.0),
        ("a", "other", 3, 2, 0, 2, 6, 5, 0, 0.0),
        ("b", "data_movement", 1, 1, 0, 1, 3, 3, 0, 0.0),
        ("b", "eltwise", 1, 1, 1, 0, 1, 1, 1, 1.0),
        ("b", "other", 1, 1, 1, 0, 1, 1, 1, 1.0),
    ],
    f"SELECT op_name, stage_reached, depth, ops, uses FROM night_ladder WHERE model = 'all models' "
    f"AND night_id = '{NIGHT}' AND status = 'success' ORDER BY op_name": [
        ("stablehlo.add", "compare", 4, 1, 3),
        ("stablehlo.exp", "compare", 4, 1, 1),
    ],
    f"SELECT label, op_name, expected <> '', news, now_bad, models, uses FROM night_diff WHERE night_id = '{NIGHT}' "
    "ORDER BY label, op_name": [
        ("FIXED", "stablehlo.exp", 0, 0, 0, "b", 1),
        ("NEVER-RUN", "stablehlo.idle", 0, 0, 0, "a", 1),
        ("NEW", "stablehlo.host", 1, 0, 1, "a", 4),
        ("NEW", "stablehlo.lost", 0, 1, 1, "a", 1),
        ("NEW", "stablehlo.sort", 0, 1, 1, "b", 3),
        ("SLOWER", "stablehlo.add", 0, 0, 0, "a, b", 3),
    ],
    "SELECT label, op_name, status, artifact FROM night_failures ORDER BY started, op_name": [
        ("FIRST", "stablehlo.exp", "wrong_result", ""),
        ("NEW", "stablehlo.host", "compile_failed", ""),
        ("NEW", "stablehlo.lost", "unsplittable", ""),
        ("NEW", "stablehlo.sort", "crashed", "artifacts/x/e.txt"),
    ],
    f"SELECT position, op_names, model_count, uses, expected_ops FROM night_clusters WHERE night_id = '{NIGHT}' "
    "ORDER BY position": [
        (1, "stablehlo.host", 1, 4, 1),
        (2, "stablehlo.sort", 1, 3, 0),
        (3, "stablehlo.lost", 1, 1, 0),
    ],
    "SELECT night_status, newest, op_names, ops, new_ops, expected_ops, models, uses, log FROM night_grid "
    "ORDER BY started, op_names": [
        ("complete", 0, "stablehlo.exp", 1, 0, 0, "b", 1, ""),
        ("partial", 1, "stablehlo.host", 1, 0, 1, "a", 4, ""),
        ("partial", 1, "stablehlo.lost", 1, 1, 0, "a", 1, ""),
        ("partial", 1, "stablehlo.sort", 1, 1, 0, "b", 3, "night02/artifacts/x/e.txt"),
    ],
    f"SELECT fixes, whole, all_models, unlocked FROM night_unlock WHERE night_id = '{NIGHT}' ORDER BY fixes": [
        (0, 0, 2, ""),
        (1, 1, 2, "b"),
        (2, 1, 2, ""),
        (3, 1, 2, ""),
    ],  # one op of a was not attempted
    "SELECT model, outcome, ops, right_ops, bad_ops, not_attempted, whole, right_before, right_now, nights_ago "
    "FROM model_readiness ORDER BY started, model": [
        ("a", "ran", 2, 2, 0, 0, 1, None, None, 1),
        ("b", "ran", 2, 1, 1, 0, 0, None, None, 1),
        ("a", "ran", 4, 1, 2, 1, 0, 1, 1, 0),
        ("b", "ran", 3, 2, 1, 0, 0, 1, 2, 0),
        ("c", "missing", 0, 0, 0, 0, 0, None, None, 0),
    ],
    "SELECT model, op_name, uses, depth FROM model_blockers ORDER BY started, model, op_name": [
        ("b", "stablehlo.exp", 1, 1),
        ("a", "stablehlo.host", 4, 1),
        ("a", "stablehlo.lost", 1, 1),
        ("b", "stablehlo.sort", 3, 1),
    ],
    f"SELECT cycles, cycles_of_all_uses, compile_ms FROM night_ops WHERE op_id = '{op_id('add')}' ORDER BY started": [
        (100, 300, 10.0),
        (200, 600, 10.0),
    ],
    "SELECT model, op_name, cycles, cycles_error FROM dashboard_ops WHERE cycles > 0 ORDER BY model, op_name": [
        ("a", "stablehlo.add", 200, None),
        ("b", "stablehlo.add", 200, None),
        ("b", "stablehlo.exp", 10, 25.3),
    ],
    "SELECT model, SUM(cycles_of_all_uses), SUM(right_ops) FROM night_costs "
    "GROUP BY night_id, model ORDER BY night_id, model": [
        ("a", 200, 2),
        ("all models", 300, 2),
        ("b", 100, 1),
        ("a", 400, 1),
        ("all models", 610, 2),
        ("b", 210, 2),
    ],
}
"""Query -> its rows."""


@pytest.mark.parametrize("query", EXPECTED, ids=lambda query: query.partition("FROM ")[2].split(" ")[0])
def test_each_view_says_what_was_counted_by_hand(url: str, query: str) -> None:
    assert rows(url, query) == EXPECTED[query]


TIMES = {"date", "started", "night"}


def test_every_view_with_a_time_is_asked_for_a_day_by_its_text(url: str) -> None:
    """In SQLite a time is a text with hours, so that `date = '2026-11-20'` finds nothing."""
    days = {}
    with read_database(url) as connection:
        for view in views():
            columns = connection.execute(sa.text(f"SELECT * FROM {view} WHERE 1 = 0")).keys()
            if TIMES & {*columns}:
                assert "day" in columns, view
                days[view] = set(connection.scalars(sa.text(f"SELECT day FROM {view}")))
    assert len(days) > 20
    assert set().union(*days.values()) == {"2026-11-02", "2026-11-03"}


def test_right_means_the_same_in_every_view(tmp_path: Path) -> None:
    """A backend that compiles for the host is right there; an op of a device's lane that fell back is not."""
    url = fresh(tmp_path / "db.sqlite")
    on_host = {"ran_on": "host"}
    publish_night(url, tmp_path / "1", 1, {"add": Op(uses={"a": 2}), "exp": Op(uses={"a": 1}, more=on_host)})
    for day in (2, 3):
        alone = record(day, archs=("p150",))
        ops = {"add": Op(uses={"a": 2}, more=on_host), "exp": Op(uses={"a": 1}, more=on_host)}
        publish(shard_run(tmp_path / str(day), alone, day, ops, arch="p150"), url)
    sums = "SUM(right_ops), SUM(right_uses), SUM(attempted_ops)"
    of = f"SELECT arch, {sums} FROM {{}} WHERE model = 'a' GROUP BY night_id, arch"
    expected = [("n150", 1, 2, 2), ("p150", 2, 3, 2), ("p150", 2, 3, 2)]
    for view in ("dashboard_counts", "night_coverage"):
        assert sorted(rows(url, of.format(view))) == expected, view
    now = "SELECT right_before, right_now FROM model_readiness WHERE model = 'a' AND nights_ago = 0 AND arch = 'p150'"
    assert rows(url, now) == [(2, 2)]


OWN_LADDER = ("parse", "lower", "allocate", "emit")
"""Stages of a compiler in an order that is not that of the alphabet."""


def test_stages_of_an_own_compiler_are_numbered_in_the_order_in_which_ops_climb_them(tmp_path: Path) -> None:
    ops = {
        stage: Op(
            "compile_failed",
            failed=Stage(above),
            more={
                "stage_reached": Stage(stage),
                "stages": tuple(StageTime(stage=Stage(each), seconds=1) for each in OWN_LADDER[: place + 2]),
            },
        )
        for place, (stage, above) in enumerate(pairwise(OWN_LADDER))
    }
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, ops, backend="own"), url)
    climbed = "SELECT stage_reached, depth FROM night_ladder WHERE model = 'm' ORDER BY depth"
    assert rows(url, climbed) == [("parse", 2), ("lower", 3), ("allocate", 4)]
    blocked = "SELECT stage_reached, depth FROM model_blockers ORDER BY depth"
    assert rows(url, blocked) == [("parse", 2), ("lower", 3), ("allocate", 4)]
    for view in ("dashboard_ops", "dashboard_counts"):
        of_model = f"SELECT furthest_stage FROM {view} WHERE model = 'm' ORDER BY furthest_stage"
        assert rows(url, of_model) == [("4 parse",), ("5 lower",), ("6 allocate",)]
