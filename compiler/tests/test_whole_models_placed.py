"""Whole models, at full size, on the Buda route: placed, unplaced and core by core the same bits; right numbers."""

from __future__ import annotations

import pytest

from ci.benchmarks.bench_placed import measured

pytestmark = pytest.mark.slow


@pytest.mark.export
@pytest.mark.parametrize(("arch", "acc"), [("n150", "Float32"), ("e150", "Float16_b")])
@pytest.mark.parametrize("model", ["resnet50", "bert_base"])
def test_a_placed_model_is_the_same_model(model: str, arch: str, acc: str) -> None:
    scores = measured(model, arch, "NLP", acc)
    assert scores.epochs > 1
    assert scores.fused > 40
    assert scores.placed_bits
    assert scores.core_bits
    assert min(scores.ttnn) >= 0.999
    assert min(scores.xla) >= 0.998
