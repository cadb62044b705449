"""Normalisation over all dims but the channels': `batch_norm_inference` and `batch_norm_training`, NCHW.

Sums, roots and divisions run on the SFPU in float32, as those of the norms along a dim do (`fused.py`). In exact order
the steps after mean and variance are those of ttnn's own kernel (`opscope.simulator.kernels.real.fused`).
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.fused_params import NormParams
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.real import fused as real
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


def _normalised(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, vectors: Images, call: Call) -> np.ndarray:
    """(x - mean) / sqrt(variance + epsilon), times a weight and plus an offset where they are given."""
    epsilon = params_of(call, NormParams).epsilon
    if call.arithmetic.exact_order:
        return real.batch_norm(x, mean, variance, vectors, epsilon, call.numerics, call.inputs[0].data_format)
    value = (x - mean) * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))
    if vectors:
        value = value * vectors[0]
    return value + vectors[1] if len(vectors) > 1 else value


@kernel(
    "batch_norm_inference",
    NormParams,
    arity=(3, 5),
    max_ulp=16,
    cycles=("subtract", "rsqrt", "multiply", "multiply", "add"),
)
def batch_norm_inference(images: Images, call: Call) -> np.ndarray:
    """Inputs: x, mean, variance, and perhaps weight and offset, these of (1, channels, 1, 1)."""
    x, mean, variance, *vectors = operands(images, call)
    return _normalised(x, mean, variance, vectors, call)


@kernel(
    "batch_norm_training",
    NormParams,
    arity=(1, 3),
    max_ulp=16,
    cycles=("sum", "subtract", "multiply", "sum", "rsqrt", "multiply", "multiply", "add"),
)
def batch_norm_training(images: Images, call: Call) -> Images:
    """Inputs: x, and perhaps weight and offset. Results: x normalised by its own mean and variance, and these."""
    x, *vectors = operands(images, call)
    others = (0, *range(2, x.ndim))
    mean = np.asarray(np.mean(x, axis=others, keepdims=True, dtype=np.float32))
    variance = np.asarray(np.mean(np.square(x - mean), axis=others, keepdims=True, dtype=np.float32))
    return [_normalised(x, mean, variance, vectors, call), mean, variance]
