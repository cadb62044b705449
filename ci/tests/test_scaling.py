"""The sweep of sleeping models: its bound, its modules, and a small one for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from ci.benchmarks import replay, scaling  # noqa: E402  not a package of ours
from opscope.harness.prepare.parts import walk_in_parts  # noqa: E402
from opscope.harness.prepare.split import split_module  # noqa: E402

RECORDED = {
    "late": {"export": 1.0, "split": 0.5, "golden": 1.0, "ops": [0.1, 2.0, 0.1, 0.3]},
    "suite:none": {"export": 0.25, "split": 0.25, "golden": 0.1, "ops": []},
    "busy": {"export": 1.0, "split": 0.0, "golden": 1.0, "ops": [1.0, 1.0], "cpu": 2.0},
}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({"models": RECORDED}))
    return path


def test_the_bound_is_the_longest_chain_or_all_work_over_the_workers(recorded: Path) -> None:
    models = scaling.read(recorded)
    assert [model.name for model in models] == ["busy", "late", "suite_none"]
    assert models[0].work == pytest.approx(2.0), "its processor time, half of the clock's"
    limit = scaling.bound(models)
    assert (limit.model, limit.op, limit.chain) == ("late", 1, pytest.approx(1.5 + 2 * 0.25 + 2.0))
    assert limit.work == pytest.approx(2.0 + 5.0 + 0.6)
    assert [limit.seconds(n) for n in (1, 64)] == [pytest.approx(7.6), pytest.approx(4.0)]
    assert [len(model.ops) for model in scaling.read(recorded, group=3)] == [1, 2, 1]
    assert scaling.bound(scaling.read(recorded, group=3)).work == pytest.approx(7.6)


def test_a_replay_waits_for_all_models_or_takes_ops_as_their_goldens_come(recorded: Path) -> None:
    models = scaling.read(recorded)
    everything = pytest.approx(scaling.bound(models).work)
    assert replay.with_phases(models, 1, 1) == everything
    assert replay.without_phases(models, 1) == everything
    one_by_one, longest_op = 1.0 + 2.5 + 0.6, 2.0
    assert replay.with_phases(models, 4, 1) == pytest.approx(one_by_one + longest_op)
    assert replay.with_phases(models, 4, 3) == pytest.approx(2.5 + longest_op)
    assert replay.without_phases(models, 64) == pytest.approx(4.0), "the longest chain"
    assert replay.without_phases(models, 2) == pytest.approx(4.1), "a worker that is free takes what is there"


def test_goldens_of_a_suite_are_made_by_several_workers(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    row = {"export": 1.0, "split": 0.0, "golden": 4.0, "ops": [0.5, 1.0, 0.5, 0.5]}
    path.write_text(json.dumps({"models": {"suite:some": row, "chained": row}}))
    chained, suite = scaling.read(path)
    assert (chained.chain()[0], suite.chain()[0]) == (pytest.approx(5.5), pytest.approx(3.0))
    assert [replay.without_phases([suite], n) for n in (1, 4)] == [pytest.approx(7.5), pytest.approx(3.0)]
    assert replay.without_phases([chained], 4) == pytest.approx(5.5)
    scaling.write([chained, suite], tmp_path)
    parts = [
        walk_in_parts.parts(split_module((tmp_path / f"{model.name}.mlir").read_text(), "m"), random=False)
        for model in (chained, suite)
    ]
    assert [sum(part.ops > 0 for part in each) for each in parts] == [1, 4]


def test_ops_are_told_apart_by_their_shape_and_overlaps_are_counted(recorded: Path, tmp_path: Path) -> None:
    table = json.loads(scaling.write(scaling.read(recorded), tmp_path).read_text())
    texts = [(tmp_path / f"{name}.mlir").read_text() for name in ("busy", "late", "suite_none")]
    shapes = [shape for text in texts for shape in re.findall(r"(?:negate %\w+ : |select .* )tensor<(\w+)xi8>", text)]
    assert len(set(shapes)) == len(shapes) == 7
    assert list(table["ops"]) == shapes
    slept = [scaling.Sleep("op", "a", begin, end) for begin, end in ((0, 2), (1, 3), (2, 4), (5, 6))]
    assert scaling.most_at_once(slept) == 2


@pytest.mark.slow
@pytest.mark.parametrize("over", ["lanes", "dask"])
def test_two_workers_sleep_for_each_model_and_op_once(recorded: Path, over: str) -> None:
    if over == "dask":
        pytest.importorskip("distributed", reason="pip install -e '.[cluster]'")
    command = [sys.executable, "-m", "ci.benchmarks.scaling", "--durations", str(recorded), "--workers", "2", "--over"]
    command += [over, "--seconds", "8", "--group", "1", "--json", str(recorded.with_name("figures"))]
    place = recorded.parent
    done = subprocess.run(
        command, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Longest chain: late, its export, split, goldens up to op 2 and that op, 4.0 s" in done.stdout
    figures = json.loads(recorded.with_name("figures").read_text())
    assert figures["exit"] == 0
    assert figures["least"] == 8.0
    assert 0 < figures["possible"] < 1
    assert figures["most_at_once"] >= 1
