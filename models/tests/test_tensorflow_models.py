"""Models of Keras, TensorFlow, GraphDef and TFLite: the export, run by XLA, computes what the framework itself does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from opscope.models import frontends, registry
from opscope.models.tests.framework_results import FRAMEWORKS, values
from opscope.models.tests.test_torch_models import exported, run

pytestmark = pytest.mark.slow

MODELS = [n for n in registry.names() if registry.get(n).framework in FRAMEWORKS]

FAR = {"ds_cnn_int8_tflite": 0.0}
"""Model -> how far results may be apart, as a share of the largest; integers are equal."""


@pytest.mark.parametrize("name", MODELS)
def test_the_export_computes_what_the_framework_computes(name: str, tmp_path: Path) -> None:
    from opscope.harness.prepare import golden
    from opscope.models.frontends import child

    needed = [frontends.missing(framework) for framework in (registry.get(name).framework, "tf")]  # Keras on TensorFlow
    if any(needed):
        pytest.skip("; ".join(filter(None, needed)))
    result = child.read(exported(name, tmp_path))
    run(
        [
            sys.executable,
            "-P",
            "-m",
            "opscope.models.tests.framework_results",
            name,
            str(tmp_path),
            str(tmp_path / "own.npz"),
        ],
        tmp_path,
    )
    expected = list(np.load(tmp_path / "own.npz").values())
    got = golden.compile_module(result.bytecode)(list(values(result).values()))
    assert [g.shape for g in got] == [e.shape for e in expected]
    for ours, theirs in zip(got, expected, strict=True):
        scale = np.abs(theirs).max()
        assert np.isfinite(ours).all()
        assert ours.std() > 1e-3 * scale > 0, "a constant result would hide every error"
        assert np.abs(ours - theirs).max() <= FAR.get(name, 1e-4) * scale
