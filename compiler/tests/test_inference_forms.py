"""What JAX emits for language models' inference: which ops become of it, and that these compute what XLA does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler import api
from opscope.compiler.pipelines.pipeline import graph_passes, run
from opscope.compiler.tests import programs
from opscope.models.rotary import grouped_attention, rotate

RANDOM = np.random.default_rng(4)


def randoms(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


Q, KV, SMALL = randoms(2, 16, 4, 32), randoms(2, 16, 2, 32), randoms(2, 5, 4, 32)
ONE, CACHE = randoms(2, 1, 4, 32), randoms(2, 4, 24, 32)
HIDDEN = RANDOM.random((2, 4, 16, 16)) < 0.3
HIDDEN[..., 0] = False
SDPA, DECODE = "scaled_dot_product_attention", "scaled_dot_product_attention_decode"
dot_product_attention = jax.nn.dot_product_attention


def onnx_rotary(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([cosine * a - sine * b, sine * a + cosine * b], axis=-1)


def onnx_attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """As the expansion of ONNX's Attention: half of the scale on each side, zeros where a row sees nothing."""
    half = jnp.sqrt(1 / jnp.sqrt(jnp.float32(q.shape[-1])))
    scores = (q * half) @ jnp.swapaxes(k * half, -1, -2) + mask
    weights = jax.nn.softmax(scores, axis=-1)
    unseen = jnp.max(mask, axis=-1, keepdims=True) == -jnp.inf
    return jnp.where(unseen, 0.0, weights) @ v


def torch_rotary(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, axis=-1)
    return x * cosine + jnp.concatenate([-b, a], axis=-1) * sine


def step(cache: jax.Array, new: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A step of a decoder: writes one position and attends to all that are written."""
    cache = jax.lax.dynamic_update_slice(cache, new, (0, 0, place, 0))
    scores = jnp.einsum("bhqd,bhkd->bhqk", new, cache) * 32**-0.5
    scores = jnp.where(jnp.arange(24) <= place, scores, -1e30)
    return cache, jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), cache)


LOWER = np.where(np.tri(16, 16, -1, dtype=bool) | (np.arange(16) == 3), 0, -np.inf).astype(np.float32)
"""What each of 16 positions sees: those before it and the fourth; made to hide all from one row below."""
LOWER[2] = -np.inf
FORMS: dict[str, tuple[Callable[..., Any], list[np.ndarray], list[str]]] = {
    "attention, causal, heads that share keys": (
        lambda q, k, v: dot_product_attention(q, k, v, is_causal=True),
        [Q, KV, KV[::-1]],
        [SDPA],
    ),
    "attention with a mask of each head": (
        lambda q, k, v, m: dot_product_attention(q, k, v, mask=~m),
        [Q, Q[::-1], SMALL[:, :1].repeat(16, 1), HIDDEN],
        [SDPA],
    ),
    "attention with a bias, heads that share keys": (
        lambda q, k, v, m: dot_product_attention(q, k, v, bias=m),
        [Q, KV, KV[::-1], randoms(1, 4, 16, 16)],
        [SDPA],
    ),
    "attention of a query that is shorter": (dot_product_attention, [SMALL, KV, KV[::-1]], [SDPA]),
    "attention of one position": (dot_product_attention, [ONE, Q, Q[::-1]], [DECODE]),
    "attention of one position, heads that share keys as its rows": (
        dot_product_attention,
        [ONE, KV, KV[::-1]],
        [SDPA],
    ),
    "a decoder's attention": (
        lambda q, k, v: grouped_attention(q, k, v, 4, 2, jnp.zeros((16, 16))),
        [Q.reshape(2, 16, 128), KV.reshape(2, 16, 64), KV[::-1].reshape(2, 16, 64)],
        ["rotary_embedding", "rotary_embedding", SDPA],
    ),
    "a step with a cache": (step, [CACHE, randoms(2, 4, 1, 32), np.int32(7)], ["update_cache", DECODE]),
    "a step past the end": (step, [CACHE, randoms(2, 4, 1, 32), np.int32(99)], ["update_cache", DECODE]),
    "filling a cache": (
        lambda c, x: jax.lax.dynamic_update_slice(c, x, (0, 0, 0, 0)),
        [CACHE, randoms(2, 4, 9, 32)],
        ["fill_cache"],
    ),
    "a scatter into a cache": (
        lambda c, x, p: c.at[:, :, p].set(x[:, :, 0]),
        [CACHE, randoms(2, 4, 1, 32), np.int32(7)],
        ["update_cache"],
    ),
    "a scatter past the end, which writes nothing": (
        lambda c, x, p: c.at[:, :, p].set(x[:, :, 0]),
        [CACHE, randoms(2, 4, 1, 32), np.int32(99)],
        ["update_cache"],
    ),
    "a scatter of the first positions": (
        lambda c, x: c.at[:, :, np.arange(9)].set(x),
        [CACHE, randoms(2, 4, 9, 32)],
        ["fill_cache"],
    ),
    "rotary": (rotate, [randoms(2, 4, 16, 32)], ["rotary_embedding"]),
    "attention of ONNX": (
        onnx_attention,
        [randoms(1, 4, 16, 32), randoms(1, 4, 16, 32), randoms(1, 4, 16, 32), LOWER],
        [SDPA],
    ),
    "rotary of ONNX": (onnx_rotary, [randoms(2, 4, 16, 32), randoms(16, 16), randoms(16, 16)], ["rotary_embedding"]),
    "rotary of PyTorch": (
        torch_rotary,
        [randoms(2, 4, 16, 32), randoms(2, 1, 16, 32), randoms(2, 1, 16, 32)],
        ["rotary_embedding"],
    ),
    "running sums": (lambda x: jnp.cumsum(x, axis=1), [randoms(3, 40, 5)], ["cumsum"]),
    "running sums from the end": (lambda x: jax.lax.cumsum(x, 0, reverse=True), [randoms(40, 5)], ["cumsum"]),
    "the likeliest token": (lambda x: jnp.argmax(x, axis=-1), [randoms(3, 100).round()], ["argmax"]),
    "rows of a table": (lambda t, i: t[i], [randoms(50, 32), np.array([[3, 0, -1, 49, 60]], np.int32)], ["embedding"]),
}
"""Name -> function, arguments, and what becomes of it."""
SAME_PROGRAM = {
    "a step past the end": "a step with a cache",
    "a scatter past the end, which writes nothing": "a scatter into a cache",
    "attention with a bias, heads that share keys": "attention with a mask of each head",
    "attention of a query that is shorter": "attention with a mask of each head",
    "rotary": "a decoder's attention",
    "running sums from the end": "running sums",
}
"""Forms that are programs of others, for other values or of other sizes, and one that is part of another."""

ALIKE: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "a write across two positions": (
        lambda c, x, i: jax.lax.dynamic_update_slice(c, x, (0, 0, i, 0)),
        [CACHE, randoms(2, 4, 2, 32), np.int32(3)],
    ),
    "a write to one head": (
        lambda c, x, i: jax.lax.dynamic_update_slice(c, x, (0, 1, i, 0)),
        [CACHE, randoms(2, 1, 1, 32), np.int32(3)],
    ),
    "a cache that was computed": (
        lambda c, x, i: jax.lax.dynamic_update_slice(c * 2, x, (0, 0, i, 0)),
        [CACHE, randoms(2, 4, 1, 32), np.int32(3)],
    ),
    "angles of another half": (
        lambda x, c, s: jnp.concatenate([x[..., :16] * c - x[..., 16:] * s, x[..., 16:] * s + x[..., :16] * c], -1),
        [randoms(2, 4, 16, 32), randoms(16, 16), randoms(16, 16)],
    ),
    "a turn the other way": (
        lambda x, c, s: x * c + jnp.concatenate([x[..., 16:], -x[..., :16]], -1) * s,
        [randoms(2, 4, 16, 32), randoms(16, 32), randoms(16, 32)],
    ),
    "weights of which some are left out": (
        lambda q, m: jnp.where(m == -jnp.inf, 0.0, jax.nn.softmax(q @ jnp.swapaxes(q, -1, -2), axis=-1)) @ q,
        [randoms(1, 4, 16, 32), LOWER],
    ),
    "a scatter that adds to a cache": (
        lambda c, x, p: c.at[:, :, p].add(x[:, :, 0]),
        [CACHE, randoms(2, 4, 1, 32), np.int32(7)],
    ),
    "a scatter into a part of each position": (
        lambda c, x, p: c.at[:, :, p, :9].set(x[:, :, 0, :9]),
        [CACHE, randoms(2, 4, 1, 32), np.int32(7)],
    ),
    "a scatter of positions in another order": (
        lambda c, x: c.at[:, :, np.array([1, 0, 2])].set(x),
        [CACHE, randoms(2, 4, 3, 32)],
    ),
    "sums of windows": (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (39, 1), (1, 1), ((38, 0), (0, 0))),
        [randoms(40, 5)],
    ),
    "the least likely token": (lambda x: jnp.argmin(x, axis=-1), [randoms(3, 100).round()]),
    "columns of a table": (lambda t, i: t[:, i], [randoms(50, 32), np.array([3, 0], np.int32)]),
}
"""What differs in one point."""
NAMED = {SDPA, DECODE, "update_cache", "fill_cache", "rotary_embedding", "cumsum", "argmax", "embedding"}


def named(source: str) -> list[str]:
    module = api.stablehlo_to_ttir(source)
    run(graph_passes(), module)
    names = [name.removeprefix("ttir.") for name in programs.op_names(module)]
    return [name for name in names if name in NAMED]


def check(source: str, arguments: list[np.ndarray], tolerance: float) -> None:
    for level in (0, 1):
        outputs = programs.simulate(source, *arguments, optimization_level=level)
        for got, wanted in zip(outputs, programs.xla(source, *arguments), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", covered(FORMS, SAME_PROGRAM))
def test_a_form_becomes_the_op_of_that_name(name: str) -> None:
    function, arguments, wanted = FORMS[name]
    assert named(programs.stablehlo(function, *arguments)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_the_lowered_form_computes_what_xla_does(name: str) -> None:
    function, arguments, _ = FORMS[name]
    check(programs.stablehlo(function, *arguments), arguments, 5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_what_only_looks_like_it_is_composed(name: str) -> None:
    function, arguments = ALIKE[name]
    source = programs.stablehlo(function, *arguments)
    assert named(source) == []
    check(source, arguments, 5e-3)


@pytest.mark.slow
def test_attention_in_bfloat16_is_no_less_exact_than_its_parts() -> None:
    arguments = [np.asarray(x, jnp.bfloat16) for x in (Q, KV, KV[::-1])]
    source = programs.stablehlo(lambda q, k, v: dot_product_attention(q, k, v, is_causal=True), *arguments)
    exact = dot_product_attention(*(jnp.asarray(x, jnp.float32) for x in arguments), is_causal=True)
    errors = []
    for level in (0, 1):
        (got,) = programs.simulate(source, *arguments, optimization_level=level)
        errors.append(float(np.abs(np.asarray(got, np.float32) - exact).max()))
    assert errors[1] <= 1.2 * errors[0] < 0.1
    assert named(source) == [SDPA]
