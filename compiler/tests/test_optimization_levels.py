"""Whole functions at each optimization level: what XLA computes, in fewer ops; single ops stay what they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.pipelines import pipeline
from opscope.compiler.tests import programs

SAME = ("NHWC", "HWIO", "NHWC")


def attention(x, q, k, v, o):
    """Four heads over 64 positions, masked, and a projection."""

    def heads(y):
        return y.reshape(1, 64, 4, 32).transpose(0, 2, 1, 3)

    mask = jnp.where(jnp.arange(64)[:, None] >= jnp.arange(64), 0.0, -1e9)
    scores = jax.nn.softmax(heads(x @ q) @ heads(x @ k).transpose(0, 1, 3, 2) * 0.125 + mask)
    return (scores @ heads(x @ v)).transpose(0, 2, 1, 3).reshape(1, 64, 128) @ o


def block(x, w, b, u, c, g, s):
    """Layer norm, two dense layers with a gelu of each form between, RMS norm."""
    y = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + s
    y = jax.nn.gelu(y @ w + b, approximate=False)
    y = jax.nn.gelu(y @ u + c, approximate=True) + x
    return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * g


def convnet(x, w, b, m, v, u):
    """Convolution, batch norm, ReLU, convolution with a bias, sum over pixels."""
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=SAME)
    y = jax.nn.relu((y - m) * (jax.lax.rsqrt(v + 1e-5) * b) + m)
    y = jax.lax.conv_general_dilated(y, u, (2, 2), "SAME", dimension_numbers=SAME) + b
    return jnp.maximum(y, 0.0).sum((1, 2))


FUNCTIONS = {
    "attention": (attention, ((1, 64, 128), *[(128, 128)] * 4)),
    "block": (block, ((1, 32, 64), (64, 96), (96,), (96, 64), (64,), (64,), (64,))),
    "convnet": (convnet, ((1, 14, 14, 32), (3, 3, 32, 64), (64,), (64,), (64,), (3, 3, 64, 64))),
}


@cache
def case(name: str, dtype: str = "float32") -> tuple[str, list[np.ndarray]]:
    """A function's StableHLO and its arguments."""
    function, shapes = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    args: list[Any] = [jnp.asarray(np.abs(rng.standard_normal(s)) / max(1, s[0]) ** 0.5 + 0.01, dtype) for s in shapes]
    args[0] = jnp.asarray(rng.standard_normal(shapes[0]), dtype)
    return programs.stablehlo(function, *args), [np.asarray(a) for a in args]


@cache
def plain(name: str) -> np.ndarray:
    """The result at level 0."""
    source, args = case(name)
    return programs.simulate(source, *args)[0]


@pytest.mark.crossed
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_level_computes_the_same(name: str, level: int) -> None:
    source, args = case(name)
    (ours,) = programs.simulate(source, *args, optimization_level=level)
    assert ours.shape == plain(name).shape
    assert np.linalg.norm(ours - plain(name)) <= 3e-3 * np.linalg.norm(ours)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_level_computes_what_xla_does(name: str, level: int) -> None:
    source, args = case(name)
    (ours,), (theirs,) = programs.simulate(source, *args, optimization_level=level), programs.xla(source, *args)
    assert np.linalg.norm(ours - theirs) <= 5e-3 * np.linalg.norm(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "block"])
def test_bfloat16_is_rounded_less_often(name: str) -> None:
    """Against what bfloat16 operands give in float32 throughout; a golden that rounds after each op is like level 0."""
    source, args = case(name, "bfloat16")
    wide = [np.asarray(a, np.float32) for a in args]
    (truth,) = programs.xla(programs.stablehlo(FUNCTIONS[name][0], *wide), *wide)
    errors = []
    for level in (0, 1, 2):
        (got,) = programs.simulate(source, *args, optimization_level=level)
        errors.append(np.linalg.norm(got.astype(np.float32) - truth) / np.linalg.norm(truth))
    assert max(errors[1:]) < 0.9 * errors[0]


@pytest.mark.parametrize(
    "name",
    # quick: the others; what block has is fused, test_ttir_fusing.py
    covered(FUNCTIONS, {"block": "attention"}),
)
def test_level_1_has_fewer_kernels(name: str) -> None:
    ttir = api.stablehlo_to_ttir(case(name)[0])
    single, better = (
        programs.op_names(api.ttir_to_ttnn(ttir, programs.BOARD, api.CompileOptions(optimization_level=level)))
        for level in (0, 1)
    )
    assert len(better) < 0.75 * len(single)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(CompilerInputError, match="optimization level: expected 0, 1, 2, got 3"):
        pipeline.ttnn_passes("n150", api.CompileOptions(optimization_level=3))


def test_the_levels_pipeline_replays() -> None:
    words = api.pipeline(api.CompileOptions(optimization_level=1))
    assert "ttir-erase-inverse-ops" in words
    assert pipeline.spell(pipeline.parse(words)) == words
