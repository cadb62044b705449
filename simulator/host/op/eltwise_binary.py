"""Elementwise ops of two operands; a dimension of size 1 is repeated. Comparisons are 1 or 0 in the type of A."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, binary, op


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: compare(a, b).astype(jnp.asarray(a).dtype)


Add = binary("Add", jnp.add, "Returns A + B.")
Subtract = binary("Subtract", jnp.subtract, "Returns A - B.")
Multiply = binary("Multiply", jnp.multiply, "Returns A * B, element by element.")
Divide = binary("Divide", jnp.divide, "Returns A / B.")
Max = binary("Max", jnp.maximum, "Returns the larger of A and B.")
Min = binary("Min", jnp.minimum, "Returns the smaller of A and B.")
Heaviside = binary("Heaviside", jnp.heaviside, "Returns 0 where A < 0, B where A = 0, 1 where A > 0.")
Power = binary("Power", jnp.power, "Returns A to the power of B.")
Equal = binary("Equal", _compared(jnp.equal), "Returns 1 where A = B.")
NotEqual = binary("NotEqual", _compared(jnp.not_equal), "Returns 1 where A differs from B.")
Greater = binary("Greater", _compared(jnp.greater), "Returns 1 where A > B.")
GreaterEqual = binary("GreaterEqual", _compared(jnp.greater_equal), "Returns 1 where A >= B.")
Less = binary("Less", _compared(jnp.less), "Returns 1 where A < B.")
LessEqual = binary("LessEqual", _compared(jnp.less_equal), "Returns 1 where A <= B.")
LogicalAnd = binary("LogicalAnd", _compared(jnp.logical_and), "Returns 1 where neither A nor B is 0.")


@op
def BinaryStack(name: str, operandA: Any, operandB: Any, dim: int) -> Any:
    """Returns the elements of A and B in turn along `dim`, which becomes twice as long."""
    if operandA.shape != operandB.shape:
        raise PyBudaError(f"expected two operands of one shape, got {operandA.shape} and {operandB.shape}")
    axis = axis_of(dim, operandA.ndim)
    shape = [2 * n if i == axis else n for i, n in enumerate(operandA.shape)]
    return jnp.stack((operandA, operandB), axis=axis + 1).reshape(shape)
