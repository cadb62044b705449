"""Reductions along one dimension, of which a 1 is left."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, op


@op
def ReduceSum(name: str, operandA: Any, dim: int) -> Any:
    """Returns the sums along `dim`."""
    return jnp.sum(operandA, axis=axis_of(dim, operandA.ndim), keepdims=True)


@op
def ReduceAvg(name: str, operandA: Any, dim: int) -> Any:
    """Returns the means along `dim`."""
    return jnp.mean(operandA, axis=axis_of(dim, operandA.ndim), keepdims=True)


@op
def ReduceMax(name: str, operandA: Any, dim: int, stride: int = -1) -> Any:
    """Returns the maximum along `dim`, or of each `stride` elements of it."""
    axis = axis_of(dim, operandA.ndim)
    return jnp.max(_grouped(operandA, axis, operandA.shape[axis] // stride if stride > 0 else 1), axis=axis + 1)


@op
def GroupedReduceAvg(name: str, operandA: Any, dim: int, groups: int, keep_dims: bool = False) -> Any:
    """Returns the mean of each of `groups` parts of `dim`, or, with `keep_dims`, in place of each element."""
    axis = axis_of(dim, operandA.ndim)
    means = jnp.mean(_grouped(operandA, axis, groups), axis=axis + 1)
    return jnp.repeat(means, operandA.shape[axis] // groups, axis=axis) if keep_dims else means


def _grouped(value: Any, axis: int, groups: int) -> Any:
    size = value.shape[axis]
    if groups < 1 or size % groups:
        raise PyBudaError(f"expected parts that divide {size} elements, got {groups}")
    return value.reshape((*value.shape[:axis], groups, size // groups, *value.shape[axis + 1 :]))
