"""DataFrames hold what the database holds, in columns that the documentation lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.errors import InputError
from harness.store import load_run
from reports import frames
from reports.ask import ask
from reports.publish import publish
from reports.tests.nights import Op, night
from reports.tests.sample_run import make_run

DOCS = Path(__file__).parents[2] / "docs" / "results.md"


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(make_run(tmp_path / "run"), url)
    publish(night(tmp_path, 1, {"add": Op(cycles=7), "exp": Op("run_failed")}), url)
    publish(night(tmp_path, 2, {"add": Op("crashed"), "exp": Op()}), url)
    return url


def test_columns_and_types_are_the_documented_ones_also_without_a_row(url: str) -> None:
    made = {"op_tests": frames.op_tests(url), "coverage": frames.coverage(url), "diff": frames.diff(url=url)}
    empty = {"op_tests": frames.op_tests(url, "nobody"), "coverage": frames.coverage(url, "nobody")}
    text = DOCS.read_text(encoding="utf-8")
    for name, frame in [*made.items(), *empty.items()]:
        assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == {
            column: kind.dtype for column, kind in frames.COLUMNS[name].items()
        }
    for columns in frames.COLUMNS.values():
        for column, kind in columns.items():
            assert f"| `{column}` | {kind.dtype} | {kind.meaning} |" in text
    assert all(len(frame) for frame in made.values())
    assert not any(len(frame) for frame in empty.values())


def test_op_tests_are_the_records(url: str, tmp_path: Path) -> None:
    frame = frames.op_tests(url, "20261120-120000-demo").set_index("op_id")
    tests = load_run(tmp_path / "run").tests
    assert len(frame) == len(tests)
    for test in tests:
        row = frame.loc[test.op_id]
        assert (row.status, row.uses, row.flaky, row.expected) == (test.status, test.uses, test.flaky, test.expected)
        assert row.pcc == test.pcc or (pd.isna(row.pcc) and test.pcc is None)
        assert row.cycles is pd.NA if test.cycles is None else row.cycles == test.cycles
        assert row.models == list(test.models)
    assert frame.started.iloc[0] == pd.Timestamp("2026-11-20T12:00:00Z")


def test_coverage_is_the_view_and_diff_the_comparison(url: str) -> None:
    rows = ask(url, "SELECT SUM(attempted_ops), SUM(passed_uses) FROM coverage").rows[0]
    frame = frames.coverage(url)
    assert (frame.attempted_ops.sum(), frame.passed_uses.sum()) == rows
    changed = frames.diff("night01", "night02", url).set_index("op_name")
    assert changed.label.to_dict() == {"stablehlo.add": "NEW", "stablehlo.exp": "FIXED"}
    assert changed.models.to_list() == [["m"], ["m"]]
    assert changed.news.to_dict() == {"stablehlo.add": True, "stablehlo.exp": False}


def test_without_pandas_the_error_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"expected pandas, got no module `pandas`; try pip install 'opscope\[frames"):
        frames.op_tests(url)


def test_importing_frames_costs_no_pandas() -> None:
    script = "import sys, reports.frames; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
