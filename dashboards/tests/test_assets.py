"""The files of the dashboards: identities, names, and that every chart's query runs over the views there are."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import SandboxedEnvironment

from opscope.base.labels import label_colours
from opscope.dashboards import asset_files, bundle, checks
from opscope.dashboards.asset_files import Chart, Condition, Row
from opscope.dashboards.bundle import Source, ViewComment
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.inside.series_colours import COLOURS, SCHEME
from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.viz import columns, metrics
from opscope.reports.database.ask import questions
from opscope.reports.database.database import open_database, views
from opscope.reports.pages import charts
from opscope.reports.publish.publish import publish
from opscope.reports.tests.sample_run import NASTY, make_run

SOURCE = Source("sqlite:///file:/r.sqlite?mode=ro&uri=true", "http://127.0.0.1:1")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    folder = tmp_path_factory.mktemp("assets")
    url = f"sqlite:///{folder / 'r.sqlite'}"
    publish(make_run(folder / "run"), url)
    with open_database(url), closing(sqlite3.connect(folder / "r.sqlite")) as connection:
        yield connection


def test_the_assets_have_no_problems() -> None:
    assert checks.problems(ASSETS) == []
    assert [page.title for page in ASSETS.dashboards.values()] == [
        "Start",
        "Tonight",
        "Op coverage",
        "Model readiness",
        "Op explorer",
        "Performance",
        "Nights",
        "Two nights",
    ]


def changed(kind: str, name: str, **fields: Any) -> list[str]:
    """What the checks say after a change of one asset: fields of a chart, a dashboard, a filter or an alert."""
    of_kind = getattr(ASSETS, kind)
    asset = of_kind[name].model_copy(update=fields)
    return checks.problems(dataclasses.replace(ASSETS, **{kind: {**of_kind, name: asset}}))


HEAVIEST = ASSETS.charts["heaviest"]
BY_NIGHT = ASSETS.charts["failing_by_night"].params
TONIGHT = ASSETS.dashboards["tonight"]
ONE_ROW = TONIGHT.rows[0]


@pytest.mark.parametrize(
    ("kind", "name", "fields", "says"),
    [
        ("charts", "newest_nights", {"uuid": HEAVIEST.uuid}, "twice"),
        ("charts", "newest_nights", {"dataset": "gone"}, "expected a dataset, got gone"),
        ("charts", "heaviest", {"params": {**HEAVIEST.params, "groupby": ["colour"]}}, "got colour"),
        ("charts", "heaviest", {"params": {**HEAVIEST.params, "metrics": ["weight"]}}, "got weight"),
        ("charts", "heaviest", {"where": (Condition.model_validate({"column": "colour", "is": "=="}),)}, "got colour"),
        ("charts", "failing_by_night", {"params": {**BY_NIGHT, "groupby": ["model"]}}, "at most 8 lines"),
        ("charts", "failing_by_night", {"params": {**BY_NIGHT, "groupby": ["op_name"], "limit": 13}}, "try limit"),
        ("charts", "heaviest", {"below": "gone"}, "expected a dashboard of dashboards/, got gone; try start, tonight"),
        ("dashboards", "coverage", {"rows": ()}, "expected a dashboard that shows it, got none"),
        (
            "dashboards",
            "tonight",
            {"rows": (ONE_ROW.model_copy(update={"charts": {**ONE_ROW.charts, "newest_nights": 3}}),)},
            "got 15",
        ),
        ("dashboards", "tonight", {"rows": (*TONIGHT.rows, Row(height=1, charts={"gone": 12}))}, "got gone"),
        ("dashboards", "tonight", {"filters": ("gone",)}, "got gone"),
        ("dashboards", "tonight", {"slug": "opscope-op"}, "got 2"),
        ("filters", "model", {"column": "colour"}, "got colour"),
        ("alerts", "worse", {"dashboard": "gone"}, "alerts/worse.yaml: expected a dashboard of dashboards/, got gone"),
        ("alerts", "worse", {"chart": "gone"}, "alerts/worse.yaml: expected a chart of charts/, got gone"),
        ("alerts", "worse", {"chart": "failing_rows"}, "alerts/worse.yaml: expected a chart without HTML"),
        ("alerts", "worse", {"crontab": "daily"}, "a crontab of five fields, got 'daily'; try '0 7 * * *'"),
    ],
)
def test_the_checks_notice(kind: str, name: str, fields: dict[str, Any], says: str) -> None:
    assert [line for line in changed(kind, name, **fields) if says in line], says


def test_a_retired_object_does_not_come_back() -> None:
    retired = dataclasses.replace(ASSETS, retired={"charts": [HEAVIEST.uuid]})
    assert [line for line in checks.problems(retired) if line.startswith("charts/heaviest.yaml: ")]


CHART = {"name": "A chart", "dataset": "dashboard_ops", "kind": "table"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({**CHART, "kind": "pie"}, "charts/new.yaml: expected a kind of dashboards/viz.py ("),
        ({**CHART, "uuid": "not one"}, "charts/new.yaml: uuid: expected String should match pattern"),
        ({**CHART, "datasets": "x"}, "charts/new.yaml: expected only fields of asset_files.Chart, got `datasets`"),
        ({"name": "A chart", "kind": "table"}, "charts/new.yaml: expected `dataset`, got none"),
        ({**CHART, "params": {"metrix": ["a"]}}, "expected a parameter of table, got metrix; try metric"),
        (
            {**CHART, "where": [{"column": "a", "is": "~"}]},
            "charts/new.yaml: where.0.is: expected Input should be '=='",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_its_field(values: dict[str, Any], says: str) -> None:
    with pytest.raises(DashboardError) as error:
        asset_files.parse(Chart, values, "charts/new.yaml")
    assert str(error.value).startswith(says) or says in str(error.value)


def test_an_object_without_a_uuid_has_that_of_its_name() -> None:
    chart = asset_files.parse(Chart, CHART, "charts/new.yaml")
    assert chart.uuid == asset_files.uuid_of("chart", "new")
    assert ASSETS.charts["all_models"].uuid == "05213744-67d4-55f1-8551-9f8dc759fc33"


def test_datasets_have_the_columns_of_their_views(database: sqlite3.Connection) -> None:
    made = views()
    for name, doc in ASSETS.datasets.items():
        assert name in made
        columns_of_view = [row[0] for row in database.execute(f"SELECT * FROM {name} LIMIT 0").description]
        assert sorted(doc.stored_columns) == sorted(columns_of_view), name
        for about in doc.columns.values():
            assert (about.text_of or columns_of_view[0]) in columns_of_view


def query_of(doc: Chart) -> tuple[str, list[Any]]:
    """The SQL that Superset makes of a chart, near enough, and its values."""
    full = bundle.chart_params(doc, ASSETS)
    dataset = bundle.dataset(doc.dataset, ASSETS.datasets[doc.dataset], SOURCE)
    expressions = {c["column_name"]: c["expression"] or c["column_name"] for c in dataset["columns"]}
    measured = {m["metric_name"]: m["expression"] for m in dataset["metrics"]}
    groups = [expressions[name] for name in columns(full)]
    selected = [*groups, *(measured[name] for name in metrics(full))]
    tests, values = [], []
    for condition in full["adhoc_filters"]:
        operator, value = condition["operator"], condition["comparator"]
        if operator == "TEMPORAL_RANGE":
            continue
        many = value if isinstance(value, list) else [value]
        marks = f"({', '.join('?' * len(many))})" if isinstance(value, list) else "?"
        tests.append(f"{expressions[condition['subject']]} {operator} {marks}")
        values += many
    sql = f"SELECT {', '.join(selected)} FROM {doc.dataset}"
    sql += f" WHERE {' AND '.join(tests)}" if tests else ""
    return sql + (f" GROUP BY {', '.join(groups)}" if groups and metrics(full) else ""), values


def test_every_query_runs(database: sqlite3.Connection) -> None:
    for chart in ASSETS.charts.values():
        database.execute(*query_of(chart)).fetchall()


def test_every_alert_asks_for_one_number(database: sqlite3.Connection) -> None:
    assert len(ASSETS.alerts) == 4
    for name, doc in ASSETS.alerts.items():
        if doc.sql:
            ((value,),) = database.execute(doc.sql.replace("{since}", "2026-11-20 00:00:00")).fetchall()
            assert value >= 0, name


def test_charts_count_the_ops_of_the_run(database: sqlite3.Connection) -> None:
    """The sample run has one op of each status: 14 attempted but three, 2 right on the device, 1 on the host, and 1
    that passed the last stage that it was asked for and so is right on no device."""
    charts = (ASSETS.charts[name] for name in ("right_on_device", "failing_tonight"))
    rate, failing = (database.execute(*query_of(chart)).fetchall() for chart in charts)
    assert [row[-1] for row in rate] == [pytest.approx(2 / 11)]
    assert failing == [(6,)]


def test_counters_of_the_device_are_weighed_by_uses(database: sqlite3.Connection) -> None:
    """Two ops of the sample run have counters; the records of the others read as those from before."""
    limits, use, moved = (
        database.execute(*query_of(ASSETS.charts[name])).fetchall()
        for name in ("limits_by_kind", "use_by_kind", "moved_by_model")
    )
    uses = dict(database.execute("SELECT op_kind, SUM(uses) FROM dashboard_ops WHERE limiter <> '' GROUP BY op_kind"))
    assert sorted(limits) == [
        ("eltwise", "launch", uses["eltwise"] * 4_096),
        ("matmul", "math", uses["matmul"] * 120_000),
    ]
    assert sorted(row[-1] for row in use) == [0.25, 0.75]
    assert sum(row[1] for row in moved) == uses["eltwise"] * 6_144 + uses["matmul"] * 9_216
    assert sum(row[2] for row in moved) == uses["matmul"] * 512


def test_html_in_results_is_text_in_tables(database: sqlite3.Connection) -> None:
    rows = database.execute(*query_of(ASSETS.charts["failing_rows"])).fetchall()
    cells = [cell for row in rows for cell in row if isinstance(cell, str) and "alert" in cell]
    assert cells
    assert any(
        "<script>" in row[0]
        for row in database.execute("SELECT error_message FROM dashboard_ops WHERE error_message IS NOT NULL")
    )
    for cell in cells:
        assert cell.startswith("<span>")
        assert cell.endswith("</span>")
        assert "<" not in cell.removeprefix("<span>").removesuffix("</span>")
    assert "<script>" in NASTY


def test_a_table_that_renders_html_shows_no_column_as_it_is() -> None:
    safe = {
        "label",
        "change",
        "cause",
        "speaks",
        "status",
        "platform",
        "started",
        "date",
        "outcome",
        "furthest",
        "furthest_stage",
        "failed_stage",
        "stage_reached",
        "flaky",
        "night",
        "backend",
        "arch",
        "data",
        "night_status",
        "changed",
        "op_kind",
        "position",
        "rank",
        "jaxlib",
        "compiler",
        "pcc",
        "z_max",
        "cycles",
        "compile_ms",
        "numbers",
        "uses",
        *(f"{what}_{when}" for what in ("status", "pcc", "cycles") for when in ("before", "now")),
    }
    for name, doc in ASSETS.charts.items():
        full = bundle.chart_params(doc, ASSETS)
        about = ASSETS.datasets[doc.dataset].columns
        if full.get("allow_render_html"):
            raw = {column for column in columns(full) if not (about[column].text_of or about[column].link)}
            numbers = {column for column in raw if about[column].type == "count"}
            assert raw - numbers <= safe, name


def test_the_bundle_has_the_fields_that_superset_reads() -> None:
    source = Source(
        "sqlite:///x",
        "http://a",
        {"dashboard_ops": ViewComment("What it holds.", {"op": "the op"})},
        {"q": ("Why?", "SELECT 1")},
    )
    files = bundle.render(ASSETS, source)
    by_uuid = {doc["uuid"]: doc for doc in files.values() if "uuid" in doc}
    assert len(by_uuid) == len(files) - 1
    for name, doc in files.items():
        if name.startswith("charts/"):
            assert by_uuid[doc["dataset_uuid"]]["table_name"] in doc["query_context"] or doc["query_context"]
            assert json.loads(doc["query_context"])["queries"]
        if name.startswith("dashboards/"):
            ids = {key: value["meta"]["chartId"] for key, value in doc["position"].items() if key.startswith("CHART-")}
            assert len(set(ids.values())) == len(ids)
            for one in doc["metadata"]["native_filter_configuration"]:
                assert set(one["scope"]["excluded"]) <= set(ids.values())
                names = [target["column"]["name"] for target in one["targets"] if target]
                left_out = [(each["subject"], each["comparator"]) for each in one.get("adhoc_filters", [])]
                assert left_out == [(name, "<empty string>") for name in names]
    assert files["charts/heaviest.yaml"]["description"].endswith("What it holds.")
    columns = {
        one["column_name"]: one["description"] for one in files["datasets/results/dashboard_ops.yaml"]["columns"]
    }
    assert columns["op"] == "the op"
    assert files["queries/results/q.yaml"]["sql"] == "SELECT 1"


def test_the_stored_questions_are_saved_queries() -> None:
    source = Source("sqlite:///x", "", {}, {one.name: (one.asks, one.sql) for one in questions().values()})
    queries = [doc for name, doc in bundle.render(ASSETS, source).items() if name.startswith("queries/")]
    assert len(queries) >= 15
    assert len({doc["uuid"] for doc in queries}) == len(queries)


def test_rates_keep_all_statuses_and_newest_charts_all_nights() -> None:
    files = bundle.render(ASSETS, SOURCE)
    doc = files["dashboards/tonight.yaml"]
    number = {value["id"][6:]: value["meta"]["chartId"] for key, value in doc["position"].items() if "CHART-" in key}
    spared = {f["name"]: set(f["scope"]["excluded"]) for f in doc["metadata"]["native_filter_configuration"]}
    assert number["pass_rate_by_night"] in spared["Status"]
    assert number["failing_tonight"] in spared["Nights"]
    assert number["changes_by_night"] not in spared["Status"] | spared["Nights"]
    assert set(number) == set(ASSETS.dashboards["tonight"].charts)


def test_every_dashboard_has_the_colours_that_the_report_has() -> None:
    files = bundle.render(ASSETS, SOURCE)
    for name in ASSETS.dashboards:
        metadata = files[f"dashboards/{name}.yaml"]["metadata"]
        assert metadata["label_colors"] == label_colours()
        assert metadata["shared_label_colors"] == list(label_colours())
    assert label_colours()["compile_failed"] == charts.status_colours()["compile_failed"]


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """WCAG's contrast of two colours, each of three numbers of 0 to 255."""

    def light(colour: Sequence[float]) -> float:
        shares = [part / 255 for part in colour]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    dark, bright = sorted((light(one), light(other)))
    return bright / dark


@pytest.mark.parametrize(("card", "text"), [(255, 255 * 0.12), (0x14, 0x14 * 0.15 + 255 * 0.85)], ids=["light", "dark"])
def test_big_numbers_can_be_read_in_both_modes(card: float, text: float) -> None:
    """Of Superset's cards and texts, whose greys are given: black of 88 % on white, white of 85 % on #141414."""
    css = "".join(bundle.legible(page, ASSETS) for page in ASSETS.dashboards.values())
    share = bundle.TONE / 100
    for each in ASSETS.charts.values():
        for row in each.params.get("conditional_formatting", ()):
            if each.kind == "big_number_total":
                own = bytes.fromhex(row["colorScheme"][1:])
                assert f"'{', '.join(map(str, own))}'] {{ color: color-mix(in srgb, {row['colorScheme']} " in css
                assert contrast([part * share + text * (1 - share) for part in own], [card] * 3) >= 4.5, each.name


def test_bars_of_names_with_a_platform_lie() -> None:
    """Such names are long, and there are dozens of them: below upright bars they overlap."""
    bars = [each for each in ASSETS.charts.values() if str(each.params.get("x_axis")).endswith("_on")]
    named = [each for each in bars if each.kind == "echarts_timeseries_bar"]
    assert len(named) > 3
    assert not [each.name for each in named if each.params.get("orientation") != "horizontal"]


def test_bars_of_names_begin_with_the_first() -> None:
    """A lying chart has its first bar at the bottom, and Superset sorts none without being asked by what."""
    lying = [each for each in ASSETS.charts.values() if each.params.get("orientation") == "horizontal"]
    assert len(lying) > 3
    order = {(each.params.get("x_axis_sort"), each.params.get("x_axis_sort_asc")) for each in lying}
    assert order == {("name", False)}


def test_each_series_can_be_seen_in_both_modes() -> None:
    for colour in COLOURS:
        own = bytes.fromhex(colour[1:])
        assert min(contrast(own, [card] * 3) for card in (255, 0x14)) >= 3, colour
    schemes = {bundle.chart_params(each, ASSETS).get("color_scheme") for each in ASSETS.charts.values()}
    assert schemes <= {None, SCHEME}


def test_every_chart_is_written(tmp_path: Path) -> None:
    bundle.write(bundle.render(ASSETS, SOURCE), tmp_path / "b")
    assert len(list((tmp_path / "b" / "charts").iterdir())) == len(ASSETS.charts)


MODEL, AXIS = [{"col": "model", "op": "IN", "val": ["resnet50"]}], {"sqlExpression": "date", "label": "date"}


@pytest.mark.parametrize(
    ("columns", "filters", "metrics", "alone"),
    [
        ([AXIS, "platform"], [{"col": "of_date", "op": "==", "val": 1}], ["pass_rate"], True),
        (["status"], None, [], True),
        ([AXIS, "platform"], MODEL, ["pass_rate"], False),
        (["op_kind", "model"], [], ["coverage"], False),
        (["op_kind"], [], [{"expressionType": "SQL", "sqlExpression": "COUNT(DISTINCT model)"}], False),
        (["op_kind", "ops"], [], None, False),
    ],
    ids=["curve", "values of a filter", "a model asked for", "models shown", "a metric of a user's own", "raw rows"],
)
def test_totals_are_read_alone_where_no_model_is_asked_for(
    columns: list[Any], filters: list[Any] | None, metrics: list[Any] | None, alone: bool
) -> None:
    """The template of Superset's in the datasets that have totals."""
    source = bundle.Source("sqlite:///x.sqlite")
    sql = {name: bundle.dataset(name, about, source)["sql"] for name, about in ASSETS.datasets.items()}
    with_totals = {name for name, template in sql.items() if template}
    assert with_totals == {name for name, about in ASSETS.datasets.items() if "model = ''" in str(about.metrics)}
    for name in with_totals:
        template = SandboxedEnvironment().from_string(sql[name])
        where = " WHERE model = ''" if alone else ""
        assert template.render(columns=columns, filter=filters, metrics=metrics) == f"SELECT * FROM {name}{where}"
