"""What is fused, what is not, and that a fused kernel is no less exact than the ops that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.pipelines.pipeline import graph_passes, run
from opscope.compiler.tests import programs


def softmax(x, w, b):  # type: ignore[no-untyped-def]
    return jax.nn.softmax(x)


def rms_norm(x, w, b):  # type: ignore[no-untyped-def]
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def layer_norm(x, w, b):  # type: ignore[no-untyped-def]
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def dense(x, w, b):  # type: ignore[no-untyped-def]
    return jax.nn.relu(x @ x[0].T + b[:32])


def attention(x, w, b):  # type: ignore[no-untyped-def]
    q = x.reshape(2, 32, 2, 32).transpose(0, 2, 1, 3)
    return jax.nn.softmax(q @ q.transpose(0, 1, 3, 2) / 8.0 + b[:32]) @ q


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "softmax": (softmax, ["softmax"]),
    "softmax of rows": (lambda x, w, b: jax.nn.softmax(x, axis=1), ["softmax"]),
    "rms_norm": (rms_norm, ["rms_norm"]),
    "layer_norm": (layer_norm, ["layer_norm"]),
    "gelu": (lambda x, w, b: jax.nn.gelu(x, approximate=False), ["gelu"]),
    "gelu by tanh": (lambda x, w, b: jax.nn.gelu(x, approximate=True), ["gelu"]),
    "silu": (lambda x, w, b: jax.nn.silu(x), ["silu"]),
    "mean": (lambda x, w, b: x.mean((0, 2)), ["mean"]),
    "dense": (dense, ["linear", "relu"]),
    "attention": (attention, ["scaled_dot_product_attention"]),
}
FUSED = ("softmax", "rms_norm", "layer_norm", "gelu", "silu", "mean", "linear", "relu", "scaled_dot_product_attention")


@cache
def inputs() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal(s).astype(np.float32) for s in ((2, 32, 64), (64,), (64,)))


def fused(source: str) -> list[str]:
    module = api.stablehlo_to_ttir(source)
    run(graph_passes(), module)
    return [name.removeprefix("ttir.") for name in programs.op_names(module)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_one_op(name: str) -> None:
    function, expected = FUNCTIONS[name]
    names = fused(programs.stablehlo(function, *inputs()))
    assert [op for op in names if op in FUSED] == expected
    assert not {"exp", "rsqrt", "sqrt", "erf", "erfc", "tanh", "sum", "div"} & set(names)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: jnp.exp(x) / jnp.exp(x).sum(0, keepdims=True).max(1, keepdims=True),
        lambda x, w, b: x * jax.lax.rsqrt((x * w).mean(-1, keepdims=True) + 1e-6),
        lambda x, w, b: 0.5 * x * (1 + jax.lax.erf(x * 0.8)),
        lambda x, w, b: x * jax.nn.sigmoid(x + 1),
    ],
)
def test_what_only_looks_like_it_stays(function: Any) -> None:
    assert not {"softmax", "rms_norm", "gelu", "silu"} & set(fused(programs.stablehlo(function, *inputs())))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_fused_kernel_is_no_less_exact(name: str, dtype: str) -> None:
    """Against float64 on XLA; where both round alike, by no more than an eighth."""
    function, _ = FUNCTIONS[name]
    args = [np.asarray(jnp.asarray(x, dtype)) for x in inputs()]
    with jax.enable_x64(True):
        golden = np.asarray(jax.jit(function)(*(jnp.asarray(a.astype(np.float64)) for a in args)))
    source = programs.stablehlo(function, *args)
    errors = []
    for level in (0, 1):
        (got,) = programs.simulate(source, *args, optimization_level=level)
        errors.append(np.linalg.norm(got.astype(np.float64) - golden) / np.linalg.norm(golden))
    assert errors[1] <= 1.125 * errors[0] + 2e-7


def test_the_kernels_are_what_xla_computes() -> None:
    """All of them in one program, each fused."""

    def every(x, w, b):  # type: ignore[no-untyped-def]
        return [function(x, w, b) for function, _ in FUNCTIONS.values()]

    source = programs.stablehlo(every, *inputs())
    results = programs.simulate(source, *inputs(), optimization_level=1)
    for name, ours, theirs in zip(FUNCTIONS, results, programs.xla(source, *inputs()), strict=True):
        assert np.linalg.norm(ours - theirs) <= 3e-3 * np.linalg.norm(theirs), name


def test_what_is_fused_is_known_by_the_op_whose_result_it_makes() -> None:
    source = """
    func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<32x32xf32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32> loc("product")
      %1 = stablehlo.slice %b [0:1, 0:32] : (tensor<32x32xf32>) -> tensor<1x32xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<32x32xf32>
      %3 = stablehlo.add %0, %2 : tensor<32x32xf32> loc("sum")
      %4 = stablehlo.maximum %3, %z : tensor<32x32xf32> loc("activation")
      return %4 : tensor<32x32xf32>
    }"""
    ttir = api.stablehlo_to_ttir(source)
    fused = ttir.clone()
    run(graph_passes(), fused)
    assert {op.name: str(op.location) for op in fused.walk()}["ttir.linear"] == 'loc("sum"(unknown))'
    ttnn = api.ttir_to_ttnn(ttir, programs.BOARD, api.CompileOptions(optimization_level=1))
    assert {op.name: str(op.location) for op in ttnn.walk()}["ttnn.linear"] == 'loc("activation"(unknown))'
