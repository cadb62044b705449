"""Every chart over nights of every kind: each number has a unit and a rule, and all that show it say the same."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from opscope.base.night_grid.commit_pages import page_of_range
from opscope.base.night_grid.grid import read
from opscope.dashboards import bundle
from opscope.dashboards.asset_files import Chart
from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.tests.test_assets import query_of
from opscope.dashboards.viz import columns, metrics
from opscope.reports.compare.night_views import night_view
from opscope.reports.compare.op_history import causes_beginning
from opscope.reports.compare.outcomes import Outcome
from opscope.reports.database.reading import read_database
from opscope.reports.tests import every_kind
from opscope.reports.tests.every_kind import DATES, PLATFORMS, STOPPED, STOPPED_ON, TONIGHT
from opscope.reports.tests.night_runs import fresh

RULES = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ON_DEVICE = ("reference n150", "reference p150")
Row = dict[str, Any]
Ask = Callable[[str], list[Row]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("every_kind")
    url = fresh(folder / "r.sqlite")
    every_kind.fill(folder / "runs", url)
    return url


@pytest.fixture(scope="module")
def connection(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def shown(connection: sqlite3.Connection) -> Ask:
    """The rows that a chart shows: column or metric -> value, dates as text."""

    def ask(name: str) -> list[Row]:
        chart = ASSETS.charts[name]
        full = bundle.chart_params(chart, ASSETS)
        names = [*columns(full), *metrics(full)]
        rows = connection.execute(*query_of(chart)).fetchall()
        return [
            {key: str(value)[:10] if key == "date" else value for key, value in zip(names, row, strict=True)}
            for row in rows
        ]

    return ask


@pytest.fixture(scope="module")
def tonight(url: str, connection: sqlite3.Connection) -> dict[str, list[Outcome]]:
    """Platform -> its ops tonight that a model uses, as `opscope diff` reads them."""
    nights = connection.execute("SELECT platform, night_id, series FROM night_dates WHERE tonight = 1").fetchall()
    with read_database(url) as reading:
        views = {platform: night_view(reading, night_id, series) for platform, night_id, series in nights}
    return {platform: [op for op in view.ops.values() if op.uses_of] for platform, view in views.items()}


def one(rows: list[Row]) -> Any:
    """The number of a card."""
    ((number,),) = (row.values() for row in rows)
    return number


# --- each number has a unit and a rule


def unit_of(chart: Chart, metric: str) -> str:
    """What a number is of: the words under a card or at an axis, a column's head in a table, a percent format."""
    full = bundle.chart_params(chart, ASSETS)
    about = ASSETS.datasets[chart.dataset].metrics[metric]
    if chart.kind == "table":
        return about.label
    words = (full.get(key) for key in ("subtitle", "subheader", "y_axis_title"))
    return next(filter(None, words), "%" if "%" in str(full.get("y_axis_format")) else "")


def test_each_number_has_a_unit_and_a_rule() -> None:
    for name, chart in ASSETS.charts.items():
        dataset = ASSETS.datasets[chart.dataset]
        rule = RULES.partition(f"\n## `{chart.dataset}`\n")[2].partition("\n## `")[0]
        assert rule, chart.dataset
        for metric in metrics(bundle.chart_params(chart, ASSETS)):
            assert unit_of(chart, metric), (name, metric)
            for column in set(re.findall(r"\w+", dataset.metrics[metric].expression)) & set(dataset.stored_columns):
                assert f"`{column}`" in rule, f"{name}: {metric} counts {column}"


# --- a board is shown where the backend has one


BOARDS = [name for name, dataset in ASSETS.datasets.items() if "arch" in dataset.columns]


@pytest.mark.parametrize("name", BOARDS)
def test_a_backend_for_the_host_has_no_board(name: str, connection: sqlite3.Connection) -> None:
    """All runs were asked for a board, which is in the keys of their series."""
    rows = connection.execute(f"SELECT DISTINCT backend, arch, platform, series FROM {name}").fetchall()
    assert {platform for _, _, platform, _ in rows} in ({*PLATFORMS}, {*PLATFORMS, STOPPED})
    for backend, board, platform, series in rows:
        assert (board != "", platform) == (backend == "reference", f"{backend} {board}".strip())
        assert re.match(rf"{backend} [np]150 ", series)


def test_rows_of_night_by_cause_name_a_board_where_there_is_one(connection: sqlite3.Connection) -> None:
    def ask(query: str, values: Mapping[str, Any]) -> list[Any]:
        return connection.execute(query, values).fetchall()

    assert set(read(ask, datetime(2026, 11, 5, tzinfo=UTC), page_of_range).series) == {
        "n150",
        "p150",
        "xla",
        "own",
        STOPPED,
    }


# --- a series that stopped, and nights of one date


CHOSEN = {"two_nights_by_cause", "two_nights_by_op"}
"""Charts of the two nights that are chosen."""
SHOW_STOPPED = CHOSEN | {
    "sentence_by_board",
    "newest_nights",
    "nights_list",
    "regressions",
    "op_what",
    "op_models",
    "op_nights",
}
"""Charts that say of which night each row is."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ASSETS.charts.keys() - SHOW_STOPPED))
def test_a_series_that_stopped_is_in_no_number_of_tonight(
    name: str, shown: Ask, connection: sqlite3.Connection
) -> None:
    """Without its rows, a chart of tonight shows the same, and an axis of dates ends for it where it stopped."""
    chart = ASSETS.charts[name]
    rows = shown(name)
    if bundle.chart_params(chart, ASSETS).get("x_axis") == "date":
        assert {row["date"] for row in rows} <= set(DATES)
        assert all(row["date"] <= STOPPED_ON for row in rows if row.get("platform") == STOPPED)
        return
    assert STOPPED not in str(rows)
    dataset = ASSETS.datasets[chart.dataset]
    sql, values = query_of(chart)
    if "series" in dataset.columns and not chart.unfiltered:
        without = f"(SELECT * FROM {chart.dataset} WHERE series NOT LIKE '{STOPPED} %')"
        without_it = connection.execute(sql.replace(f"FROM {chart.dataset}", f"FROM {without}"), values).fetchall()
        assert Counter(without_it) == Counter(tuple(row.values()) for row in rows)


def test_a_series_that_stopped_is_shown_with_its_date(shown: Ask) -> None:
    sentences = {row["platform"]: row["sentence"] for row in shown("sentence_by_board")}
    assert sentences[STOPPED] == f"Stopped: no night since {STOPPED_ON}."
    assert not any("Stopped" in sentence for platform, sentence in sentences.items() if platform != STOPPED)
    speaks = [(row["platform"], row["speaks"]) for row in shown("newest_nights")]
    assert len(dict(speaks)) == len(speaks), "each series has its own name"
    assert dict(speaks) == {
        **dict.fromkeys(ON_DEVICE, "tonight"),
        "xla": "tonight",
        "own": "tonight",
        STOPPED: f"stopped since {STOPPED_ON}",
    }


BY_DATE = [name for name, chart in ASSETS.charts.items() if chart.params.get("x_axis") == "date"]


@pytest.mark.parametrize("name", BY_DATE)
def test_boards_of_one_date_are_one_point(name: str, shown: Ask, connection: sqlite3.Connection) -> None:
    """Boards start at different minutes, and on different dates in UTC; the last of two nights on a date speaks."""
    rows = shown(name)
    groups = bundle.chart_params(ASSETS.charts[name], ASSETS).get("groupby") or []
    points = Counter(tuple(row[key] for key in ("date", *groups)) for row in rows)
    assert set(points.values()) == {1}
    dates = {date for (date,) in connection.execute("SELECT DISTINCT day FROM night_dates")}
    assert {row["date"] for row in rows} <= dates == set(DATES)


def test_of_two_nights_of_a_date_the_last_counts(url: str, connection: sqlite3.Connection, shown: Ask) -> None:
    """In the first of them an op failed that is right in the second."""
    query = "SELECT night_id, series FROM night_dates WHERE platform = 'reference n150' AND day = ? ORDER BY started"
    first, second = connection.execute(query, [DATES[2]]).fetchall()
    with read_database(url) as reading:
        rate_of = [
            rates({"reference n150": list(night_view(reading, *night).ops.values())}) for night in (first, second)
        ]
    lines = [row for row in shown("pass_rate_by_night") if row["date"] == DATES[2]]
    assert {row["platform"]: row["pass_rate"] for row in lines}["reference n150"] == rate_of[1]["reference n150"]
    assert rate_of[0] != rate_of[1]


# --- the places that show one number


def test_tonights_failures_are_those_of_the_list_and_of_the_ops(shown: Ask, tonight: dict[str, list[Outcome]]) -> None:
    failing = {op.op_id for ops in tonight.values() for op in ops if op.bad and not (op.expected or op.flaky)}
    assert one(shown("failing_tonight")) == len(failing) == len(shown("failing_rows"))
    by_op = {(row["platform"], row["op_name"]): row["failing"] for row in shown("coverage_by_op")}
    shares = {row["platform"]: row["failing_share"] for row in shown("failing_by_night") if row["date"] == TONIGHT}
    for platform, ops in tonight.items():
        bad = [op for op in ops if op.bad and not op.expected]
        assert sum(count for (of, _), count in by_op.items() if of == platform) == len(bad)
        assert shares[platform] == pytest.approx(len(bad) / sum(op.attempted for op in ops))


@pytest.mark.parametrize(
    ("card", "labels", "column"),
    [
        ("new_tonight", {"NEW"}, "new_failures"),
        ("fixed_tonight", {"FIXED"}, "fixed_ops"),
        ("slower_tonight", {"SLOWER"}, "slower_ops"),
    ],
)
def test_what_changed_is_one_number(
    shown: Ask, connection: sqlite3.Connection, card: str, labels: set[str], column: str
) -> None:
    number = one(shown(card))
    assert number > 0
    ((in_sentence, sentence),) = connection.execute(
        f"SELECT {column}, sentence || ', ' || chips FROM dashboard_verdict WHERE one_series = 0"
    )
    assert in_sentence == number
    assert re.search(rf"\b{number} (new failure|fixed|slower)", sentence)
    assert sum(row["change"] in labels for row in shown("changes_tonight")) == number
    bars = [
        row["different_ops"]
        for row in shown("changes_by_night")
        if (row["date"], row["change"] in labels) == (TONIGHT, True)
    ]
    assert sum(bars) == number
    causes = [row for row in shown("changes_by_cause") if row["change"] in labels]
    assert max(row["different_ops"] for row in causes) <= number <= sum(row["different_ops"] for row in causes)


def test_what_is_expected_or_flaky_is_no_news(shown: Ask) -> None:
    """`sort` failed in the last night of p150 that had its model: that the one before tonight lacks it is no news."""
    known = [row["op_link"] for row in shown("changes_tonight") if row["change"] == "known or flaky"]
    names = {name for link in known for name in re.findall(r"stablehlo\.(\w+)", link)}
    assert names == {"cosine", "gather", "scatter"}


def rates(tonight: dict[str, list[Outcome]]) -> dict[str, float]:
    """Platform -> the share of its attempted ops that are right where an op has to run to count."""
    return {
        platform: sum(right_there(op, platform) for op in ops) / sum(op.attempted for op in ops)
        for platform, ops in tonight.items()
    }


def right_there(op: Outcome, platform: str) -> bool:
    return op.right and (platform not in ON_DEVICE or op.ran_on == "simulator")


def test_a_rate_is_that_of_one_board_and_compiler(
    shown: Ask, tonight: dict[str, list[Outcome]], connection: sqlite3.Connection
) -> None:
    expected = rates(tonight)
    assert set(expected) == set(PLATFORMS)
    lines = {row["platform"]: row["pass_rate"] for row in shown("pass_rate_by_night") if row["date"] == TONIGHT}
    assert lines == pytest.approx(expected)
    assert len({round(rate, 6) for rate in expected.values()}) > 2, "rates that are all alike show nothing"
    cards = {row["date"]: row["lowest_rate"] for row in shown("right_on_device")}
    assert cards[TONIGHT] == pytest.approx(min(expected.values()))
    moves = {row["platform"]: row["moved"] for row in shown("moved_by_night") if row["date"] == TONIGHT}
    assert set(moves) == set(PLATFORMS)
    assert one(shown("moved_tonight")) == pytest.approx(min(moves.values()))


def test_coverage_is_that_of_one_board_and_compiler(
    shown: Ask, tonight: dict[str, list[Outcome]], connection: sqlite3.Connection
) -> None:
    heat = {(row["model_on"], row["op_kind"]): row["coverage"] for row in shown("coverage_heat")}
    for platform, ops in tonight.items():
        cells = Counter((model, op.op_kind) for op in ops for model in op.uses_of)
        right = Counter((model, op.op_kind) for op in ops for model in op.uses_of if right_there(op, platform))
        own = {(model, kind): heat.pop((f"{model}, {platform}", kind)) for model, kind in cells}
        assert own == pytest.approx({cell: right[cell] / count for cell, count in cells.items()})
    assert not heat, "a cell of no platform that speaks tonight"
    # The report and the export read night_coverage; it has the same cells.
    query = """SELECT c.model || w.named, c.op_kind, c.pass_rate FROM night_coverage c
               JOIN night_dates w ON w.night_id = c.night_id AND w.series = c.series WHERE w.tonight = 1"""
    cells = {(row["model_on"], row["op_kind"]): row["coverage"] for row in shown("coverage_heat")}
    assert {(model, kind): rate for model, kind, rate in connection.execute(query)} == pytest.approx(cells)
    by_op = [row for row in shown("coverage_by_op") if row["platform"] == "xla"]
    assert sum(row["right_ops"] for row in by_op) / sum(row["unique_ops"] for row in by_op) == pytest.approx(
        sum(op.right for op in tonight["xla"]) / len(tonight["xla"])
    )


@pytest.mark.parametrize(
    ("name", "axis"),
    [("stage_by_kind", "kind_on"), ("supported_by_dtype", "dtype_on"), ("supported_by_rank", "rank_on")],
)
def test_bars_of_one_platform_add_up_to_its_ops(
    shown: Ask, tonight: dict[str, list[Outcome]], name: str, axis: str
) -> None:
    ops = Counter[str]()
    for row in shown(name):
        ops[row[axis].partition(", ")[2]] += row["unique_ops"]
    assert ops == {platform: len(of) for platform, of in tonight.items()}


def test_models_are_whole_where_the_list_lacks_nothing(shown: Ask, tonight: dict[str, list[Outcome]]) -> None:
    lacking = Counter[str]()
    for row in shown("readiness"):
        lacking[row["model_text"]] += (row["not_right"] or 0) + (row["outcome"] != "ran")
    assert one(shown("whole_models")) == sum(count == 0 for count in lacking.values())
    assert one(shown("all_models")) == len(lacking) == len(every_kind.MODELS)
    not_right = {op.op_id for ops in tonight.values() for op in ops if not op.right}
    assert one(shown("lacking_ops")) == len(not_right)
    by_night = Counter[str]()
    for row in shown("lacking_by_night"):
        by_night[row["platform"]] += row["not_right"] * (row["date"] == TONIGHT)
    of_list = Counter[str]()
    for row in shown("readiness"):
        of_list[row["platform"]] += row["not_right"] or 0
    assert by_night - Counter() == of_list - Counter()


def test_what_a_program_lost_is_one_number_wherever_it_is_shown(shown: Ask) -> None:
    lines = {(row["date"], row["op_on"]): row["now"] for row in shown("ops_of_programs")}
    table = [row for row in shown("programs_tonight") if row["part"] == "ops"]
    assert {row["platform"] for row in table} == set(PLATFORMS)
    for platform in PLATFORMS:
        of = {row["name"]: (row["before"], row["now"]) for row in table if row["platform"] == platform}
        assert of == {"ttnn.mean": (0, 4), "ttnn.multiply": (2, 6), "ttnn.rms_norm": (2, 0)}
        for name, numbers in of.items():
            op = f"mlp: {name.removeprefix('ttnn.')}, {platform}"
            assert tuple(lines[date, op] for date in DATES[-2:] if (date, op) in lines) in (numbers, ())


def test_a_renamed_op_is_one_op(shown: Ask, connection: sqlite3.Connection) -> None:
    history = """SELECT COUNT(DISTINCT op_id), COUNT(DISTINCT date) FROM dashboard_history
                 WHERE op_name = 'stablehlo.reduce' AND platform = 'reference n150'"""
    assert connection.execute(history).fetchall() == [(1, len(DATES))]
    changes = (
        "SELECT COUNT(*) FROM dashboard_changes WHERE op_name LIKE '%reduce' AND label NOT IN ('FIRST', 'PERSISTING')"
    )
    assert connection.execute(changes).fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["changes_by_cause", "clusters_tonight", "unlock_ranking", "op_nights"])
def test_a_cause_has_the_short_id_that_every_verb_takes(name: str, url: str, shown: Ask) -> None:
    causes = {row["cause"] for row in shown(name)} - {"", None}
    assert causes
    with read_database(url) as reading:
        assert {cause: (len(cause), len(causes_beginning(reading, cause))) for cause in causes} == dict.fromkeys(
            causes, (8, 1)
        )
