"""Whole models as one program: compiled and simulated, against XLA's own run of the same module."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler import api
from opscope.harness.prepare.export import export_model
from opscope.harness.prepare.golden import compile_module
from opscope.models import registry
from opscope.models.seeding import draw
from opscope.simulator.api import Device


@pytest.mark.parametrize(
    ("name", "dtype", "relative_l2"),
    [
        ("mnist_mlp", "float32", 4e-3),
        ("mnist_mlp", "bfloat16", 1e-2),
        *(
            pytest.param(name, dtype, limit, marks=pytest.mark.slow)
            for name in ("resnet50", "bert_base", "vit_base", "gpt2_small")
            for dtype, limit in (("float32", 2e-2), ("bfloat16", 6e-2))
        ),
    ],
)
def test_a_whole_model_computes_what_xla_does(name, dtype, relative_l2):
    """Errors of the layers add up: the limits are about three times what was measured."""
    exported = export_model(registry.get(name), dtype)
    inputs = [draw(spec.law, spec.shape, spec.dtype, 0, index) for index, spec in enumerate(exported.arguments)]
    golden = compile_module(exported.bytecode)(inputs)
    program = api.compile(exported.bytecode, api.load_board("n150"))
    got = Device("n150").load(program).run(inputs).outputs
    assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in golden]
    for ours, theirs in zip(got, golden, strict=True):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        error = np.linalg.norm(a - b) / np.linalg.norm(b)
        print(name, dtype, a.shape, error, np.corrcoef(a.ravel(), b.ravel())[0, 1])
        assert error <= relative_l2
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] >= (0.999 if dtype == "float32" else 0.99)
