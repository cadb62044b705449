"""TensorFlow's calls of Python: computed where their function lives, inputs elsewhere, never run by who has it not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.models import frontends
from opscope.models.frontends import tf as frontend
from opscope.models.tests.test_torch_models import run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(frontends.missing("tf")), reason=frontends.missing("tf"))]

PROGRAM = "opscope.models.tests.tensorflow_calls"
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
SINE = np.sin(X * np.float32([1, 2, 3, 4]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved") / "model"


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return json.loads(run([sys.executable, "-P", "-m", PROGRAM, str(folder)], folder.parent, more=frontend.ENVIRONMENT))


@pytest.mark.parametrize(
    ("model", "calls", "own"),
    [("sine", 1, SINE), ("two", 2, 2 * SINE + X), ("nested", 1, SINE + 1), ("of_any_shape", 1, np.sin(X).sum())],
)
def test_what_lives_is_computed_once(found: dict[str, Any], model: str, calls: int, own: Any) -> None:
    said = found[model]
    results = [f"python.{number}.0" for number in range(calls)]
    weight = [] if model == "of_any_shape" else ["w"]
    assert said["arguments"] == ["x", *results, *weight]
    assert said["values"] == sorted(["x", *results, *weight])
    assert not said["calls"]
    assert said["notes"][0].endswith(f"{calls} computed by Python and now inputs")
    np.testing.assert_allclose(said["own"][0], own, rtol=1e-5, atol=1e-6)


def test_what_shows_is_left_out(found: dict[str, Any]) -> None:
    assert found["two"]["notes"][1:] == ["2 calls without results left out"]
    assert found["shows_in_a_loop"]["notes"] == ["1 call without results left out"]
    np.testing.assert_allclose(found["shows_in_a_loop"]["own"][0], 8 * X, rtol=1e-6)


def test_a_call_in_a_loop_is_refused(found: dict[str, Any]) -> None:
    assert "got one in a loop or a branch; try TensorFlow's own ops there" in found["calls_in_a_loop"]["refused"]


def test_of_a_saved_model_the_results_are_inputs(found: dict[str, Any], folder: Path) -> None:
    assert found
    said = json.loads(
        run([sys.executable, "-P", "-m", PROGRAM, str(folder), "again"], folder.parent, more=frontend.ENVIRONMENT)
    )
    assert (said["arguments"], said["values"]) == (["x", "python.0.0", "python.1.0", "w"], ["w"])
    assert said["notes"][0].endswith("2 now inputs without values")
    np.testing.assert_allclose(said["own"][0], 2 * X, rtol=1e-6)
