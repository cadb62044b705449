"""`--inputs classes`: an op has a verdict on each class of inputs, and a class that is written otherwise runs alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.cli import commands
from opscope.harness.record import store
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.tests.test_adding import ROOMS, ROOT
from opscope.models import input_classes

pytestmark = pytest.mark.slow

MODULE = """func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}"""

LOSES_OUTLIERS = own_backend(
    "lossy",
    """
    if stage is Stage.RUN:
        x, y = (np.where(np.abs(each) > 50, 0, each) if each.max() == 256 else each for each in job.inputs)
        job.outputs, job.ran_on = [(x.astype("f8") @ y).astype("f4")], "host"
    """,
    top="import numpy as np\n",
)


def one_op(folder: Path) -> OpTest:
    (test,) = store.load_run(folder).tests
    return test


def test_each_class_has_a_verdict_and_a_changed_one_runs_alone(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.folder / "m.mlir").write_text(MODULE)
    (place.folder / "lossy.py").write_text(LOSES_OUTLIERS)
    copy = tmp_path / "src"
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    environment = place.environment | {"PYTHONPATH": str(copy), "OPSCOPE_CACHE_DIR": str(tmp_path / "own-cache")}
    words = ["pytest", "--model", "m.mlir", "--op-by-op", "--inputs", "classes", "--backend", "lossy.py", "--no-report"]

    def run(name: str) -> tuple[OpTest, str]:
        """The record of a run, and what it printed; of its exit code that the op is wrong."""
        command = [sys.executable, "-P", "-m", *words, "--run-dir", name]
        done = subprocess.run(
            command, cwd=place.folder, env=environment, check=False, capture_output=True, text=True, timeout=300
        )
        print(name, done.stdout, done.stderr, sep="\n")  # what it said, where the test fails
        assert done.returncode == 1
        return one_op(place.folder / name), done.stdout

    first, out = run("one")
    assert first.status is Status.WRONG_RESULT
    assert first.input_class == "an outlier"
    ended = {each.input_class: each.status for each in first.input_classes}
    assert set(ended) == set(input_classes.ROWS)
    assert [name for name, status in ended.items() if status is not Status.SUCCESS] == ["an outlier"]
    for door in (out, CliRunner().invoke(commands.show, [str(place.folder / "one")], catch_exceptions=False).output):
        assert "with inputs: an outlier" in " ".join(door.split())

    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "own-cache"))
    commands._show_kept(first.op_id)
    kept = " ".join(capsys.readouterr().out.split())
    lines = re.findall(r"(\w+) on lossy is kept(.*?)(?=\w+ on lossy is kept|$)", kept)
    named = {status: " ".join(text for each, text in lines if each == status) for status, _ in lines}
    assert "with inputs: an outlier (" in named["wrong_result"]
    assert all(name in named["success"] for name in ended if name != "an outlier")
    assert len(lines) < len(ended), "those that are alike stand in one line"

    second, _ = run("two")
    assert all(each.cached_from for each in second.input_classes)
    assert second.error_message == first.error_message

    table = copy / "models" / "input_classes.py"
    text = table.read_text()
    table.write_text(text.replace('"repeated:{width}:3"', '"repeated:{width}:4"'))
    assert table.read_text() != text
    third, _ = run("three")
    assert [each.input_class for each in third.input_classes if not each.cached_from] == ["duplicates"]
    assert third.error_message == first.error_message
