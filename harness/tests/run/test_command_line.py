"""The options of a run: what `pytest --help` says of them, and what a preset sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.harness.run import command_line


def run_pytest(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest, as a user starts it in a folder."""
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:benchmark", *words]
    variables = os.environ | {"COLUMNS": "80"} | environment
    variables.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=120)


def test_help_has_a_line_for_each_option_those_of_every_day_first(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--help")
    lines = done.stdout.partition("(opscope):\n")[2].partition("\n\n")[0].splitlines()
    assert done.returncode == 0, done.stderr
    flags = [line.split()[0].partition("=")[0] for line in lines if line.startswith("  -")]
    assert flags == [flag for flag, _, _ in command_line.rows()]
    assert tuple(flags[: len(command_line.DAILY)]) == command_line.DAILY
    # An option that is itself longer than its column stands above its line.
    assert len(lines) == len(flags) + sum(len(line.split()) == 1 for line in lines)
    assert max(map(len, lines)) <= 80


MODULE = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}"""

PRESET = """\
[tool.opscope.presets.small]
model = "m.mlir"
ops = ["tanh"]
backend = "null"
"""


@pytest.mark.parametrize(
    ("words", "environment"),
    [(("--preset", "small"), {}), pytest.param((), {"OPSCOPE_PRESET": "small"}, marks=pytest.mark.slow)],
    ids=["option", "variable"],
)
def test_a_preset_is_a_usual_line(tmp_path: Path, words: tuple[str, ...], environment: dict[str, str]) -> None:
    (tmp_path / "pyproject.toml").write_text(PRESET)
    (tmp_path / "m.mlir").write_text(MODULE)
    done = run_pytest(tmp_path, "--op-by-op", *words, "--no-report", "-q", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "null" in done.stdout


def test_a_preset_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--op-by-op", "--preset", "smal")
    assert done.returncode == 2
    assert "--preset: expected a preset of" in done.stderr
    assert "Traceback" not in done.stderr
