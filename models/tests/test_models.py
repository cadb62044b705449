"""The five models: published sizes, what their ops are, and outputs that are not degenerate."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from models import registry
from models.seeding import draw

PARAMETERS = {
    "resnet50": 25_557_032,
    "bert_base": 109_482_240,
    "vit_base": 86_567_656,
    "gpt2_small": 124_439_808,
    "mnist_mlp": 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10,
}
"""As published (torchvision, the authors' checkpoints); batch norm's running statistics are no parameters."""
BIG = [n for n in PARAMETERS if n != "mnist_mlp"]
QUICK_AND_SLOW = ["mnist_mlp", *(pytest.param(n, marks=pytest.mark.slow) for n in BIG)]


@pytest.mark.parametrize("name", PARAMETERS)
def test_published_parameter_count(name: str) -> None:
    assert registry.get(name).build("float32").parameters == PARAMETERS[name]


def test_resnet50_has_53_convolutions_and_their_published_work() -> None:
    jax = pytest.importorskip("jax")
    built = registry.get("resnet50").build("float32")
    structs = {s.name: jax.ShapeDtypeStruct(s.shape, s.dtype) for s in built.arguments}
    equations = jax.make_jaxpr(built.forward)(structs).jaxpr.eqns
    kinds = Counter(str(e.primitive) for e in equations)
    assert kinds["conv_general_dilated"] == 53
    assert kinds["reduce_window"] + kinds["reduce_window_max"] == 1
    work = 2048 * 1000
    for equation in equations:
        if str(equation.primitive) == "conv_general_dilated":
            result, weight = equation.outvars[0].aval.shape, equation.invars[1].aval.shape
            work += math.prod(result) * math.prod(weight[:3])
    # 4.09 G multiply-adds: torchvision's figure for this variant.
    assert round(work / 1e9, 2) == 4.09


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", QUICK_AND_SLOW)
def test_outputs_are_not_degenerate(name: str, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    built = registry.get(name).build(dtype)
    values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}
    for result in jax.tree.leaves(jax.jit(built.forward)(values)):
        assert str(result.dtype) == dtype
        out = np.asarray(result).astype(np.float32)
        assert np.isfinite(out).all()
        assert 0.2 < out.std() < 20
        # Not one value repeated: the rows (or the classes) differ.
        assert len(np.unique(out)) > min(out.size, 2000) // 10


def test_arguments_have_distinct_names_and_known_laws() -> None:
    for name in PARAMETERS:
        for spec in registry.get(name).build("bfloat16").arguments:
            assert draw(spec.law, (2,), spec.dtype, 0, 0).shape == (2,)
