"""The options of a run: what `pytest --help` says of them, and what a preset sets."""

from __future__ import annotations

import os

import pytest

from opscope.harness.run import command_line
from opscope.harness.tests.acceptance.conftest import Done, Place
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

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

PYTEST = ("pytest", *WITHOUT_PLUGINS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder with a preset."""
    folder = tmp_path_factory.mktemp("preset")
    (folder / "pyproject.toml").write_text(PRESET)
    (folder / "m.mlir").write_text(MODULE)
    variables = os.environ | {"COLUMNS": "80"}
    variables.pop("PYTEST_ADDOPTS", None)
    return Place(folder, variables)


@pytest.fixture(scope="module")
def asked(place: Place) -> list[Done]:
    """For help, for a preset that is not there, and for one that is."""
    return place.one_after_another(
        (*PYTEST, "--optimization-level", "2", "--model", "m.mlir", "--help"),
        (*PYTEST, "--op-by-op", "--preset", "smal"),
        (*PYTEST, "--op-by-op", "--preset", "small", "--collect-only", "-q"),
    )


def test_help_has_a_line_for_each_option_those_of_every_day_first(asked: list[Done]) -> None:
    done = asked[0]
    lines = done.out.partition("(opscope):\n")[2].partition("\n\n")[0].splitlines()
    assert done.code == 0, done.err
    flags = [line.split()[0].partition("=")[0] for line in lines if line.startswith("  -")]
    assert flags == [flag for flag, _, _ in command_line.rows()]
    assert tuple(flags[: len(command_line.DAILY)]) == command_line.DAILY
    assert len(lines) == len(flags)
    assert max(map(len, lines)) <= 80


def test_a_preset_that_is_not_there_is_one_line(asked: list[Done]) -> None:
    done = asked[1]
    assert done.code == 2
    assert "--preset: expected a preset of" in done.err
    assert "Traceback" not in done.err


def test_a_preset_is_a_usual_line(asked: list[Done]) -> None:
    """That of what is collected; test_settings.py has which value goes before which."""
    done = asked[2]
    assert done.code == 0, done.out + done.err
    assert ("stablehlo.tanh" in done.out, "stablehlo.add" in done.out) == (True, False), done.out


# quick: the test above, which runs nothing
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "environment"),
    [(("--preset", "small"), {}), ((), {"OPSCOPE_PRESET": "small"})],
    ids=["option", "variable"],
)
def test_a_preset_runs(place: Place, words: tuple[str, ...], environment: dict[str, str]) -> None:
    done = place.run(*PYTEST, "--op-by-op", "--no-report", "-q", *words, **environment)
    assert done.code == 0, done.out + done.err
    assert "1 passed" in done.out
    assert "null" in done.out
