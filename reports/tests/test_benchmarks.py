"""Reports of `opscope benchmark` become rows, once each, and wait while the database is away."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.reports.commands.publish import publish
from opscope.reports.database.schema import BENCHMARKS
from opscope.reports.publish import benchmarks
from opscope.reports.tests.night_runs import fresh
from opscope.simulator.host.benchmark.command import benchmark

WORDS = ("-d", "cpu", "-m", "mlp.mlir", "-t", "na", "-mb", "2", "--loop_count", "2")
MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


def rows(path: Path) -> list[dict[str, object]]:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    return [dict(row) for row in connection.execute("SELECT * FROM benchmark_results ORDER BY started")]


def test_a_report_is_a_row_and_waits_while_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.mlir").write_text(MODULE)
    database = tmp_path / "db.sqlite"
    url = fresh(database)
    call = CliRunner().invoke
    done = call(benchmark, [*WORDS, "-o", "first.json", "--database", url])
    assert done.exit_code == 0, done.output
    first = json.loads(Path("first.json").read_text())
    (row,) = rows(database)
    assert [row[key] for key in ("device", "inputs", "timing_only", "board", "compiler")] == ["cpu", 4, 0, "", "XLA"]
    assert [row[f"{part}_seconds"] for part in ("push", "device", "pop", "total")] == list(first["seconds"].values())
    assert (row["inputs_per_second"], row["simulated_seconds_per_input"]) == (first["inputs_per_second"], None)

    database.rename(tmp_path / "away")  # where a folder is, SQLite opens nothing
    database.mkdir()
    lost = call(benchmark, [*WORDS, "-o", "second.json", "--database", url])
    assert lost.exit_code == 1  # as `opscope publish` ends then
    assert "opscope publish, which delivers" in lost.output
    assert call(publish, ["--to", url]).exit_code == 1
    os.rmdir(database)  # noqa: PTH106
    (tmp_path / "away").rename(database)
    assert "published 1 benchmark from the spool" in call(publish, ["--to", url]).output
    assert {row["inputs_per_second"] for row in rows(database)} == {
        json.loads(Path(name).read_text())["inputs_per_second"] for name in ("first.json", "second.json")
    }
    folder = benchmarks.folder_of(url, tmp_path) / benchmarks.REPORTS
    (folder / "bad.json").write_text("{")
    with pytest.raises(
        InputError, match=r"bad\.json: expected a report of .*; 1 other report published; try removing it"
    ):
        benchmarks.deliver(first, url, tmp_path, "--database")  # again: nothing changes
    assert list(folder.iterdir()) == []
    assert (folder.parent.with_name(f"{folder.parent.name}.refused") / "bad.json" / "bad.json").read_text() == "{"
    assert len(rows(database)) == 2


def test_a_database_that_is_none_is_refused_before_anything_is_measured() -> None:
    done = CliRunner().invoke(benchmark, ["-d", "cpu", "-m", "no_such_model", "--database", "mysql://h/d"])
    assert done.exit_code == 2
    assert "--database: expected a SQLite or PostgreSQL URL, got `mysql`" in done.output


def test_a_simulated_card_without_seconds_is_a_row() -> None:
    report = dict.fromkeys(("microbatch", "loop_count", "inputs", "epochs", "simulated_cycles_per_input"), 1)
    texts = {name: name for name in ("host", "device", "model", "config", "task", "board")}
    row = benchmarks.row({**report, **texts, "started": "2026-11-23T00:00:00+00:00", "timing_only": True})
    assert set(row) == {column.name for column in BENCHMARKS.columns}
    assert (row["epochs"], row["total_seconds"], row["board"]) == (1, None, "board")
