"""Elementwise ops of one operand, and the others that TT-Buda counts among them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, op, unary

Abs = unary("Abs", jnp.abs, "Returns the magnitude.")
Exp = unary("Exp", jnp.exp, "Returns e to the power of A.")
Log = unary("Log", jnp.log, "Returns the natural logarithm.")
Reciprocal = unary("Reciprocal", jnp.reciprocal, "Returns 1 / A.")
Sqrt = unary("Sqrt", jnp.sqrt, "Returns the square root.")
Sigmoid = unary("Sigmoid", jax.nn.sigmoid, "Returns 1 / (1 + exp(-A)).")
Sine = unary("Sine", jnp.sin, "Returns the sine.")
Cosine = unary("Cosine", jnp.cos, "Returns the cosine.")
Tanh = unary("Tanh", jnp.tanh, "Returns the hyperbolic tangent.")


@op
def Pow(name: str, operandA: Any, exponent: int | float) -> Any:
    """Returns A to the power of a number."""
    return jnp.power(operandA, exponent)


@op
def Identity(name: str, operandA: Any, unsqueeze: str | None = None, unsqueeze_dim: int | None = None) -> Any:
    """Returns A; with `unsqueeze` and `unsqueeze_dim`, with a dimension of size 1 at that place."""
    if unsqueeze is None and unsqueeze_dim is None:
        return operandA
    if unsqueeze_dim is None:
        raise PyBudaError(f"expected unsqueeze_dim with unsqueeze={unsqueeze!r}, got none")
    return jnp.expand_dims(operandA, unsqueeze_dim)


@op
def Buffer(name: str, operandA: Any) -> Any:
    """Returns A. Buffers that a plan needs are added by the compiler."""
    return operandA


@op
def Tilize(name: str, operandA: Any) -> Any:
    """Returns A. The host makes tiles of it."""
    return operandA


@op
def Relu(name: str, operandA: Any, threshold: float = 0.0, mode: str = "min") -> Any:
    """Returns, with mode `min`, A where it is at least the threshold, else 0; with `max`, A cut to 0..threshold."""
    if mode == "max":
        return jnp.minimum(jnp.maximum(operandA, 0), threshold)
    if mode != "min":
        raise PyBudaError(f"expected mode min or max, got {mode!r}")
    return jnp.maximum(operandA, 0) if threshold == 0 else jnp.where(operandA >= threshold, operandA, 0)


@op
def LeakyRelu(name: str, operandA: Any, alpha: float) -> Any:
    """Returns A where it is positive, else alpha * A."""
    if 0 <= alpha <= 1:
        return jnp.maximum(operandA, alpha * operandA)
    return jnp.where(operandA >= 0, operandA, alpha * operandA)


@op
def Gelu(name: str, operandA: Any, approximate: str = "none") -> Any:
    """Returns A times the normal distribution's probability below A: exactly (`none`) or by `tanh`."""
    if approximate not in ("none", "tanh"):
        raise PyBudaError(f"expected approximate none or tanh, got {approximate!r}")
    return jax.nn.gelu(operandA, approximate=approximate == "tanh")


@op
def LogicalNot(name: str, operandA: Any) -> Any:
    """Returns 1 where A is 0, else 0."""
    return jnp.equal(operandA, 0).astype(operandA.dtype)


@op
def Clip(name: str, operandA: Any, min: float, max: float) -> Any:
    """Returns A cut to min..max."""
    return jnp.minimum(jnp.maximum(operandA, min), max)


@op
def Argmax(name: str, operandA: Any, dim: int | None = None) -> Any:
    """Returns the index of the largest element along `dim`, or of all, as numbers of A's type."""
    if dim is None:
        return jnp.argmax(operandA).astype(operandA.dtype).reshape((1,) * operandA.ndim)
    return jnp.argmax(operandA, axis=axis_of(dim, operandA.ndim), keepdims=True).astype(operandA.dtype)


@op
def CumSum(name: str, operandA: Any, axis: int, exclusive: bool = False) -> Any:
    """Returns the sums of all elements up to each one, or, `exclusive`, of those before it."""
    sums = jnp.cumsum(operandA, axis=axis_of(axis, operandA.ndim))
    return sums - operandA if exclusive else sums


@op
def Dropout(name: str, operandA: Any, p: float = 0.5, training: bool = True, seed: int = 0) -> Any:
    """Returns A; in training with a share `p` of it set to 0 and the rest divided by 1 - p.

    Which elements are dropped follows from `seed` by NumPy's generator, not by PyTorch's.
    """
    if not training or p == 0:
        return operandA
    if not 0 < p < 1:
        raise PyBudaError(f"expected p from 0 to below 1, got {p}")
    kept = np.random.default_rng(seed).random(operandA.shape) >= p
    return operandA * jnp.asarray(kept / (1 - p), operandA.dtype)
