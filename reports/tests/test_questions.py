"""Questions that an analyst asks, by the SQL that comes to mind, against what the journals of a demo's nights say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opscope.harness.record.causes import cause_of_test, element_type
from opscope.harness.record.records import ImportCheck, ManifestHeader, OpRow, OpTest, Use
from opscope.harness.record.stages import ImportStatus
from opscope.harness.record.store import StoredRun, load_run
from opscope.reports.database.ask import ask, shown_rows
from opscope.reports.database.rows import Published, frameworks
from opscope.reports.demo import replay
from opscope.reports.publish.publish import publish
from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import fresh

LAST = datetime(2026, 11, 20, 2, tzinfo=UTC)
NIGHTS = (15, 29)
"""Nights of the demo: the last, and one from two weeks before. Loops, as in lstm_ptb, are lowered in between."""
MORE = (13, 14)
"""Nights of the same week as the earlier one."""
RIGHT = "status IN ('success', 'passed')"

Place = tuple[str, str, str]
"""Backend, board and format."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    assert written(folder, NIGHTS)
    return folder


def written(folder: Path, numbers: tuple[int, ...]) -> list[Path]:
    """The runs of these nights of the demo."""
    nights = [night for night in replay.nights(LAST, 0) if night.number in numbers]
    return [run_dir for night in nights for run_dir in replay.write_night(folder, night)]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database of the last night, and of one run of the earlier one: that it is not the newest shows by that."""
    place = tmp_path_factory.mktemp("database") / "db.sqlite"
    url = fresh(place) if request.param == "sqlite" else postgres_server.shared().database()
    for run_dir in (earlier(runs)[0], *sorted(runs.glob("demo-20261120-*"))):
        publish(run_dir, url)
    return url


def earlier(runs: Path) -> list[Path]:
    """The runs of the earlier night."""
    return sorted({*runs.iterdir()} - {*runs.glob("demo-20261120-*")})


@pytest.fixture(scope="module")
def two_weeks(url: str, runs: Path) -> str:
    """The same database with more nights."""
    for run_dir in (*earlier(runs)[1:], *written(runs, MORE)):
        publish(run_dir, url)
    return url


@pytest.fixture(scope="module")
def last(runs: Path) -> dict[Place, StoredRun]:
    """The runs of the last night."""
    return {_place(run): run for run in map(load_run, sorted(runs.glob("demo-20261120-*")))}


def _place(run: StoredRun) -> Place:
    asked = run.record.origin.options.get("data_format")
    board = "" if run.record.backend == "xla" else run.record.arch
    return run.record.backend, board, str(asked or "default")


def _uses(run: StoredRun) -> Iterator[tuple[str, str, int]]:
    """Each model with each op of it, and how often it has it."""
    for row in run.rows:
        for model in dict.fromkeys(use.model for use in row.uses):
            yield model, row.op_id, sum(use.model == model for use in row.uses)


def _tests(run: StoredRun) -> dict[str, OpTest]:
    return {test.op_id: test for test in run.tests}


def rows(url: str, query: str, columns: str = "") -> list[tuple[Any, ...]]:
    """What a question answers; of a stored one these columns."""
    answer = ask(url, query)
    places = [answer.columns.index(name) for name in columns.split()] or range(len(answer.columns))
    return [tuple(row[place] for place in places) for row in shown_rows(answer, len(answer.rows))]


def rates(tests: Iterator[OpTest] | list[OpTest]) -> tuple[int, int]:
    """How many ops were attempted, and how many of them are right."""
    ended = [test.status for test in tests]
    return sum(status not in ("not_run", "skipped") for status in ended), sum(status == "success" for status in ended)


def test_pass_rate_of_each_framework(url: str, last: dict[Place, StoredRun]) -> None:
    """Whichever way one asks: `models_asked` names the framework of each model, as the journal has it."""
    expected, of_models = [], set()
    for place, run in sorted(last.items()):
        frameworks = {test.frontend.partition(" ")[0] for test in run.tests}
        assert frameworks == {"jax"}, "the demo's models are JAX's"
        expected.append((*place, "jax", len(run.header.models), *rates(run.tests)))
        of_models |= {(model, "jax") for model in run.header.models}
    columns = "backend arch data_format framework models attempted_ops right_ops"
    assert rows(url, "pass_rate_by_framework", columns) == expected
    assert set(rows(url, "SELECT DISTINCT model, framework FROM models_asked")) == of_models
    obvious = (
        "SELECT backend, arch, data_format, framework, COUNT(DISTINCT model), "
        f"COUNT(DISTINCT CASE WHEN attempted = 1 THEN op_id END), COUNT(DISTINCT CASE WHEN {RIGHT} THEN op_id END) "
        "FROM newest_ops GROUP BY backend, arch, data_format, framework ORDER BY 1, 2, 3"
    )
    assert rows(url, obvious) == expected


def test_bf16_on_p150(url: str, last: dict[Place, StoredRun]) -> None:
    """A night in a format and one without are two: neither stands in for the other, and the default has a name."""
    bf16 = last["reference", "p150", "Float16_b"]
    attempted, right = rates(bf16.tests)
    assert right < attempted, "something is wrong in bf16, and is shown"
    for view in ("newest_ops", "night_ops"):
        obvious = (
            f"SELECT COUNT(DISTINCT op_id), COUNT(DISTINCT CASE WHEN {RIGHT} THEN op_id END) FROM {view} "
            "WHERE arch = 'p150' AND data_format = 'Float16_b'"
        )
        assert rows(url, obvious) == [(attempted, right)], view
    default = last["reference", "p150", "default"]
    both = _tests(bf16).keys() & _tests(default).keys()
    columns = "backend arch data_format attempted_ops right_ops both_ops right_by_default"
    (answer,) = [row for row in rows(url, "pass_rate_by_format", columns) if row[2] == "Float16_b"]
    in_both = [test for op_id, test in _tests(default).items() if op_id in both]
    assert answer == ("reference", "p150", "Float16_b", attempted, right, len(both), rates(in_both)[1])
    formats = "SELECT DISTINCT data_format FROM {} ORDER BY 1"
    for view in ("night_status", "night_rates", "newest_ops", "model_readiness", "performance"):
        assert rows(url, formats.format(view)) == [("Float16_b",), ("default",)], view
    assert ("reference p150 Float16_b",) in rows(url, "SELECT platform FROM dashboard_verdict WHERE one_series = 1")


@pytest.mark.parametrize("view", ["night_costs", "night_ladder", "dashboard_counts", "dashboard_models"])
def test_what_runs_on_no_device_has_no_cycles(url: str, view: str) -> None:
    """The cheapest model is none that was never measured: null, not 0."""
    of_host = f"SELECT DISTINCT cycles_of_all_uses FROM {view} WHERE backend = 'xla'"
    assert rows(url, of_host) == [(None,)]
    assert rows(url, f"SELECT COUNT(*) FROM {view} WHERE cycles_of_all_uses = 0") == [(0,)]
    assert rows(url, f"SELECT COUNT(*) > 0 FROM {view} WHERE cycles_of_all_uses > 0")[0][0]


@pytest.mark.slow
def test_cycles_of_a_model_over_two_weeks(two_weeks: str, runs: Path, last: dict[Place, StoredRun]) -> None:
    """Only ops measured in both nights count: lstm_ptb is no slower because its loops are lowered now."""
    expected = {}
    for place, run in last.items():
        if place[2] != "default":
            continue
        nights = [load_run(folder) for folder in sorted(runs.glob(f"*-{place[0]}-{place[1]}"))]
        for model in run.header.models:
            before = next((earlier for earlier in nights[:-1] if model in earlier.header.models), None)
            if before is None:
                continue
            now, then = _tests(run), _tests(before)
            both = [
                (count * then[op_id].cycles, count * now[op_id].cycles)
                for name, op_id, count in _uses(run)
                if name == model and op_id in then and now[op_id].cycles is not None and then[op_id].cycles is not None
            ]
            if both:
                sums = tuple(map(sum, zip(*both, strict=True)))
                expected[*place, model] = (len(both), *sums, pytest.approx(sums[1] / sums[0] - 1))
    columns = "backend arch data_format model both_ops cycles_before cycles_now change"
    assert {row[:4]: row[4:] for row in rows(two_weeks, "cycles_over_two_weeks", columns)} == expected
    key = ("reference", "n150", "default", "lstm_ptb")
    assert abs(expected[key][3].expected) < 0.02
    total = (
        "SELECT cycles_of_all_uses FROM dashboard_models WHERE model = 'lstm_ptb' AND arch = 'n150' ORDER BY started"
    )
    first, *_, newest = [row[0] for row in rows(two_weeks, total)]
    assert newest > 5 * first, "which is what the sums of the two nights say"


def test_what_blocks_the_most_models(url: str, last: dict[Place, StoredRun]) -> None:
    expected: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for place, run in last.items():
        tests = _tests(run)
        for model, op_id, _ in _uses(run):
            if cause := cause_of_test(tests[op_id]):
                expected[*place, cause].add(model)
    counted = {key: len(models) for key, models in expected.items()}
    answer = rows(url, "top_errors", "backend arch data_format cluster models")
    assert {row[:4]: row[4] for row in answer} == counted
    assert answer[0][4] == max(counted.values())
    obvious = (
        "SELECT backend, arch, data_format, cluster, model_count FROM night_clusters WHERE night_id IN "
        "(SELECT night_id FROM night_status WHERE nights_ago = 0)"
    )
    assert {row[:4]: row[4] for row in rows(url, obvious)} == counted


@pytest.mark.slow
def test_the_slowest_ops_over_all_models(url: str, last: dict[Place, StoredRun]) -> None:
    expected: dict[tuple[str, ...], int] = defaultdict(int)
    for place, run in last.items():
        tests = _tests(run)
        for _, op_id, count in _uses(run):
            if (cycles := tests[op_id].cycles) is not None:
                expected[*place, op_id] += count * cycles
    answer = rows(url, "heaviest_ops", "backend arch data_format op_id cycles_of_all_uses")
    assert len(answer) == 50
    assert [row[4] for row in answer] == sorted(expected.values(), reverse=True)[:50]
    assert {row[:4]: row[4] for row in answer}.items() <= expected.items()
    obvious = (
        "SELECT backend, arch, data_format, op_id, SUM(cycles * uses) FROM newest_ops WHERE cycles IS NOT NULL "
        "GROUP BY backend, arch, data_format, op_id"
    )
    assert {row[:4]: row[4] for row in rows(url, obvious)} == expected


def test_element_types_are_as_the_page_of_metrics_says(url: str, last: dict[Place, StoredRun]) -> None:
    """The first operand's; of `iota`, which has none, the first result's."""
    expected: dict[tuple[str, ...], set[str]] = defaultdict(set)
    without_operands = set()
    for place, run in last.items():
        for test in run.tests:
            first = [*test.inputs, *test.outputs][0].data_type
            assert first == element_type(test.inputs, test.outputs)
            expected[*place, first].add(test.op_id)
            without_operands |= {test.op_name} if not test.inputs else set()
    assert without_operands == {"stablehlo.iota"}
    obvious = (
        "SELECT backend, arch, data_format, dtype, COUNT(DISTINCT op_id) FROM newest_ops "
        "GROUP BY backend, arch, data_format, dtype"
    )
    assert {row[:4]: row[4] for row in rows(url, obvious)} == {key: len(ops) for key, ops in expected.items()}
    touched = rows(url, "coverage_by_dtype", "backend arch data_format dtype ops")
    for *key, count in touched:
        assert count >= len(expected[*key]), "an op also touches the types of its other operands"


def test_a_models_framework_is_that_of_its_import_or_of_its_own_ops() -> None:
    """An op that several models have in common names the frontend of the first of them."""
    models = {"both": "torch 2.4", "jax_one": "jax 0.10.2", "file": ""}
    uses = (
        ("own", "both"),
        ("own", "jax_one"),
        ("shared", "jax_one", "both"),
        ("alone", "file"),
        ("last", "jax_one", "shares"),
    )
    rows = [
        OpRow(
            op_id=f"{place:016x}",
            op_name=f"stablehlo.{name}",
            module=None,
            uses=tuple(Use(model=model, path="", location="") for model in of),
            frontend=models[of[0]],
        )
        for place, (name, *of) in enumerate(uses)
    ]
    checks = (ImportCheck(model="onnx_one", framework="onnx", status=ImportStatus.AGREES),)
    header = ManifestHeader(models=(), export_dirs=(), module_ops={}, structural={}, imports=checks)
    published = SimpleNamespace(ops=rows, header=header)
    assert frameworks(cast(Published, published)) == {
        "both": "torch",
        "jax_one": "jax",
        "shares": "jax",
        "onnx_one": "onnx",
    }
