"""Ops of several operands."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, op


@op
def Concatenate(name: str, *operands: Any, axis: int) -> Any:
    """Returns the operands one after the other along `axis`."""
    return jnp.concatenate(_some(operands), axis=axis_of(axis, operands[0].ndim))


@op
def Stack(name: str, *operands: Any, axis: int) -> Any:
    """Returns the operands along a new dimension."""
    return jnp.stack(_some(operands), axis=axis)


@op
def Interleave(name: str, *operands: Any, axis: int, stride: int) -> Any:
    """Returns the slices of the operands in turn, along Z (`axis` -3, `stride` 1: TT-Buda has no other)."""
    first = _some(operands)[0]
    if axis_of(axis, first.ndim) != first.ndim - 3 or stride != 1:
        raise PyBudaError(f"expected axis -3 and stride 1, got {axis} and {stride}")
    shape = list(first.shape)
    shape[-3] *= len(operands)
    return jnp.stack(operands, axis=first.ndim - 2).reshape(shape)


@op
def Where(name: str, condition: Any, x: Any, y: Any) -> Any:
    """Returns x where the condition is not 0, else y."""
    return jnp.where(jnp.not_equal(condition, 0), x, y)


@op
def IndexCopy(name: str, operandA: Any, index: Any, value: Any, dim: int) -> Any:
    """Returns A with the slices of `value` along `dim` at the places that `index` numbers."""
    axis = axis_of(dim, operandA.ndim)
    places = (slice(None),) * axis + (jnp.ravel(index).astype(jnp.int32),)
    return operandA.at[places].set(value)


def _some(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    if not operands:
        raise PyBudaError("expected at least one operand, got none")
    return operands
