"""Kernels that compute several ops at once, with intermediate values in Dst or circular buffers.

Exponentials, roots, divisions and sums run on the SFPU in float32, and sums use all bits of their operands. So softmax
and norms are at least as exact as the ops that they replace. In exact order softmax and norms are those of ttnn's own
kernels (`opscope.simulator.kernels.real.fused`).
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.real import fused as real
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


def _softmax(x: np.ndarray, dim: int, stable: bool) -> np.ndarray:
    raised = np.exp(x - np.max(x, axis=dim, keepdims=True, initial=-np.inf) if stable else x)
    return raised / np.sum(raised, axis=dim, keepdims=True, dtype=np.float32)


@kernel("softmax", SoftmaxParams, max_ulp=16, cycles=("max", "subtract", "exp", "sum", "multiply"))
def softmax(images: Images, call: Call) -> np.ndarray:
    """Exponentials over their sum along a dim."""
    (x,), params = operands(images, call), params_of(call, SoftmaxParams)
    if call.arithmetic.exact_order:
        last, from_end = np.moveaxis(x, params.dim, -1), params.dim % x.ndim - x.ndim
        if from_end == -1:
            return real.softmax(last, call.numerics, stable=params.stable)
        return np.moveaxis(real.softmax_across(last, call.numerics, rows=from_end == -2), -1, params.dim)
    return _softmax(x, params.dim, params.stable)


def _normalised(x: np.ndarray, epsilon: float) -> np.ndarray:
    square = np.mean(np.square(x), axis=-1, keepdims=True, dtype=np.float32)
    return x / np.sqrt(square + np.float32(epsilon))


def _scaled(value: np.ndarray, vectors: Images) -> np.ndarray:
    if vectors:
        value = value * vectors[0]
    return value + vectors[1] if len(vectors) > 1 else value


def _real_norm(x: np.ndarray, vectors: Images, call: Call, *, centred: bool) -> np.ndarray:
    epsilon = params_of(call, NormParams).epsilon
    whole = real.fits(x.shape[-1], [desc.data_format for desc in call.inputs], call.numerics, centred=centred)
    return real.norm(x, vectors, epsilon, call.numerics, centred=centred, whole=whole)


@kernel("rms_norm", NormParams, arity=(1, 3), max_ulp=16, cycles=("multiply", "sum", "multiply", "multiply"))
def rms_norm(images: Images, call: Call) -> np.ndarray:
    """x over the root of its mean square along the last dim, times a weight and plus a bias where they are given."""
    x, *vectors = operands(images, call)
    if call.arithmetic.exact_order:
        return _real_norm(x, vectors, call, centred=False)
    return _scaled(_normalised(x, params_of(call, NormParams).epsilon), vectors)


@kernel(
    "layer_norm",
    NormParams,
    arity=(1, 3),
    max_ulp=16,
    cycles=("sum", "subtract", "multiply", "sum", "multiply", "multiply", "add"),
)
def layer_norm(images: Images, call: Call) -> np.ndarray:
    """`rms_norm` of x minus its mean."""
    x, *vectors = operands(images, call)
    if call.arithmetic.exact_order:
        return _real_norm(x, vectors, call, centred=True)
    centred = x - np.mean(x, axis=-1, keepdims=True, dtype=np.float32)
    return _scaled(_normalised(centred, params_of(call, NormParams).epsilon), vectors)
