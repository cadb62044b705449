"""Elementwise ops of two operands; a dimension of size 1 is repeated. Comparisons are 1 or 0 in the type of A."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, op


@op
def Add(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns A + B."""
    return jnp.add(operandA, operandB)


@op
def Subtract(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns A - B."""
    return jnp.subtract(operandA, operandB)


@op
def Multiply(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns A * B, element by element."""
    return jnp.multiply(operandA, operandB)


@op
def Divide(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns A / B."""
    return jnp.divide(operandA, operandB)


@op
def Max(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns the larger of A and B."""
    return jnp.maximum(operandA, operandB)


@op
def Min(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns the smaller of A and B."""
    return jnp.minimum(operandA, operandB)


@op
def Heaviside(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 0 where A < 0, B where A = 0, 1 where A > 0."""
    return jnp.heaviside(operandA, operandB)


@op
def Power(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns A to the power of B."""
    return jnp.power(operandA, operandB)


def _compared(compare: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return compare(a, b).astype(jnp.asarray(a).dtype)


@op
def Equal(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A = B."""
    return _compared(jnp.equal, operandA, operandB)


@op
def NotEqual(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A differs from B."""
    return _compared(jnp.not_equal, operandA, operandB)


@op
def Greater(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A > B."""
    return _compared(jnp.greater, operandA, operandB)


@op
def GreaterEqual(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A >= B."""
    return _compared(jnp.greater_equal, operandA, operandB)


@op
def Less(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A < B."""
    return _compared(jnp.less, operandA, operandB)


@op
def LessEqual(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where A <= B."""
    return _compared(jnp.less_equal, operandA, operandB)


@op
def LogicalAnd(name: str, operandA: Any, operandB: Any) -> Any:
    """Returns 1 where neither A nor B is 0."""
    return _compared(jnp.logical_and, operandA, operandB)


@op
def BinaryStack(name: str, operandA: Any, operandB: Any, dim: int) -> Any:
    """Returns the elements of A and B in turn along `dim`, which becomes twice as long."""
    if operandA.shape != operandB.shape:
        raise PyBudaError(f"expected two operands of one shape, got {operandA.shape} and {operandB.shape}")
    axis = axis_of(dim, operandA.ndim)
    shape = [2 * n if i == axis else n for i, n in enumerate(operandA.shape)]
    return jnp.stack((operandA, operandB), axis=axis + 1).reshape(shape)
