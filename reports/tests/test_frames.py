"""DataFrames hold what the database holds, in columns that the documentation lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

from opscope.base.installing import install_command
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import load_run
from opscope.reports.database.ask import ask
from opscope.reports.database.database import views
from opscope.reports.database.frame_types import type_of
from opscope.reports.database.metrics import metrics
from opscope.reports.database.reading import read_database
from opscope.reports.exports import frames
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op, night
from opscope.reports.tests.sample_run import make_run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frames")


@pytest.fixture(scope="module")
def url(folder: Path) -> str:
    url = fresh(folder / "db.sqlite")
    publish(make_run(folder / "run"), url)
    publish(night(folder, 1, {"add": Op(cycles=7), "exp": Op("run_failed")}), url)
    publish(night(folder, 2, {"add": Op("crashed"), "exp": Op()}), url)
    return url


def test_columns_and_types_are_the_documented_ones_also_without_a_row(url: str) -> None:
    made = {"op_tests": frames.op_tests(url), "diff": frames.diff(url=url)}
    empty = {"op_tests": frames.op_tests(url, "nobody")}
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    for name, frame in [*made.items(), *empty.items()]:
        assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == {
            column: kind.dtype for column, kind in frames.COLUMNS[name].items()
        }
    for columns in frames.COLUMNS.values():
        for column, kind in columns.items():
            assert f"| `{column}` | {kind.dtype} | {kind.meaning} |" in text
    assert all(len(frame) for frame in made.values())
    assert not any(len(frame) for frame in empty.values())


def test_op_tests_are_the_records(url: str, folder: Path) -> None:
    frame = frames.op_tests(url, "20261120-120000-demo").set_index("op_id")
    tests = load_run(folder / "run").tests
    assert len(frame) == len(tests)
    for test in tests:
        row = frame.loc[test.op_id]
        assert (row.status, row.uses, row.flaky, row.expected) == (test.status, test.uses, test.flaky, test.expected)
        assert row.pcc == test.pcc or (pd.isna(row.pcc) and test.pcc is None)
        assert row.cycles is pd.NA if test.cycles is None else row.cycles == test.cycles
        assert row.models == list(test.models)
    assert frame.started.iloc[0] == pd.Timestamp("2026-11-20T12:00:00Z")


@pytest.mark.slow
def test_every_view_has_a_function_with_its_rows_and_its_documented_columns(url: str) -> None:
    documented = metrics()
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    filled = 0
    with read_database(url) as connection:
        answers = {name: connection.execute(sa.text(f"SELECT * FROM {name}")) for name in views()}
        stored = {name: (list(answer.keys()), len(answer.all())) for name, answer in answers.items()}
    for name in stored:
        function = getattr(frames, name)
        frame = function(url)
        assert (list(frame.columns), len(frame)) == stored[name], name
        for column in frame.columns:
            assert (str(frame[column].dtype), bool(documented[name].meaning(column))) == (type_of(name, column), True)
        assert f"## `{name}`\n\n{documented[name].holds}\n" in text
        assert documented[name].holds in function.__doc__
        filled += bool(len(frame))
    assert filled > 0.8 * len(views())
    assert set(dir(frames)) == {"diff", "op_tests", "view", *views()}
    assert all(callable(getattr(frames, name)) for name in dir(frames))


def test_a_view_of_one_run_and_unknown_views(url: str) -> None:
    asked = "SELECT uses, flaky FROM newest_ops WHERE op_name = 'stablehlo.add' AND run_id = 'night02'"
    frame = frames.newest_ops(url, "night02", op_name="stablehlo.add")
    assert tuple((row.uses, row.flaky) for row in frame.itertuples()) == ask(url, asked).rows
    assert frame.started.iloc[0] == pd.Timestamp(frames.op_tests(url, "night02").started.iloc[0])
    with pytest.raises(InputError, match=r"opscope.frames.ladder: expected a column of it, got `model`; try "):
        frames.ladder(url, model="m")
    with pytest.raises(InputError, match="expected a view of the database, got `coverge`; try coverage"):
        frames.view("coverge", url)
    none = frames.newest_ops(url, "nobody")
    assert (list(none.dtypes), len(none)) == (list(frame.dtypes), 0)
    with pytest.raises(AttributeError, match="coverge"):
        frames.coverge  # noqa: B018


def test_coverage_is_the_view_and_diff_the_comparison(url: str) -> None:
    rows = ask(url, "SELECT SUM(attempted_ops), SUM(right_uses) FROM coverage").rows[0]
    frame = frames.coverage(url)
    assert (frame.attempted_ops.sum(), frame.right_uses.sum()) == rows
    changed = frames.diff("night01", "night02", url).set_index("op_name")
    assert changed.label.to_dict() == {"stablehlo.add": "NEW", "stablehlo.exp": "FIXED"}
    assert changed.models.to_list() == [["m"], ["m"]]
    assert changed.news.to_dict() == {"stablehlo.add": True, "stablehlo.exp": False}
    assert set(changed.series) == {"reference n150 float32 0"}


def test_nights_are_compared_series_by_series(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, status in ((1, "success"), (2, "crashed")):
        night_record = record(number, archs=("n150", "p150"))
        for place, arch in enumerate(night_record.archs):
            ops = {"add": Op(status if arch == "p150" else "success", uses={"a": 1, "b": 1})}
            publish(shard_run(tmp_path, night_record, 10 * place + number, ops, arch=arch), url)
    for named in ((), ("2026-11-02", "2026-11-03"), ("nightly-20261103-020000",)):
        labels = frames.diff(*named, url=url).set_index("series").label.to_dict()
        assert labels == {"reference n150 float32 0": "SAME", "reference p150 float32 0": "NEW"}, named


def test_without_pandas_the_error_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    wanted = re.escape(f"expected pandas, got no module `pandas`; try {install_command('frames')}")
    with pytest.raises(InputError, match=wanted):
        frames.op_tests(url)


@pytest.mark.slow
def test_importing_frames_costs_no_pandas() -> None:
    script = "import sys, opscope.reports.exports.frames; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
