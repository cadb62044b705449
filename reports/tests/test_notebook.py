"""The example notebook does what it shows: its cells are run in order, as Jupyter would, on two nights."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from opscope.harness.record.stages import Stage
from opscope.reports.tests.night_runs import fresh, publish_night
from opscope.reports.tests.nights import Op

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "examples" / "results.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; its last expression is what Jupyter shows."""
    tree = ast.parse(source)
    *before, last = tree.body
    shows = isinstance(last, ast.Expr)
    exec(compile(ast.Module(body=before if shows else tree.body, type_ignores=[]), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


def test_every_cell_shows_what_its_heading_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".opscope").mkdir()
    url = fresh(tmp_path / ".opscope" / "opscope.sqlite")
    right = Op(uses={"a": 2, "b": 1}, cycles=40)
    error = "add: expected a kernel, got none"
    wrong = Op("compile_failed", failed=Stage.STABLEHLO_TO_TTIR, error=error, uses={"a": 2, "b": 1})
    publish_night(url, tmp_path / "1", 1, {"add": right, "exp": Op("crashed", uses={"b": 1})})
    publish_night(url, tmp_path / "2", 2, {"add": wrong, "exp": Op("crashed", uses={"b": 1})})
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells), "nothing of whoever wrote it is kept"
    names: dict[str, Any] = {}
    _, newest, causes, line, changes, chart = [run_cell("".join(cell["source"]), names) for cell in cells]
    assert set(newest.op_name) == {"stablehlo.add", "stablehlo.exp"}
    assert "compile_failed" in repr(newest)
    assert max(map(len, repr(newest).splitlines())) < 200, "readable without scrolling far"
    assert list(causes.uses) == [3, 1]
    assert re.search(r"\b[0-9a-f]{16}\b", line)
    assert list(changes[["label", "op_name"]].itertuples(index=False, name=None)) == [
        ("NEW", "stablehlo.add"),
        ("PERSISTING", "stablehlo.exp"),
    ]
    spec = chart.to_dict()
    assert (spec["mark"]["type"], spec["encoding"]["color"]["field"]) == ("bar", "status")
    (data,) = spec["datasets"].values()
    assert pd.DataFrame(data).groupby("status").ops.sum().to_dict() == {"compile_failed": 1, "crashed": 2, "success": 1}
