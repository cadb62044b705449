"""Matrix products."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.op.common import op


@op
def Matmul(name: str, operandA: Any, operandB: Any, bias: Any = None) -> Any:
    """Returns A @ B over the last two dimensions, plus a bias that is repeated over rows."""
    product = jnp.matmul(operandA, operandB)
    return product if bias is None else product + bias


@op
def SparseMatmul(name: str, sparseA: Any, denseB: Any) -> Any:
    """Returns A @ B. A is held densely here; a convolution's picker is the sparse one, and the compiler makes it."""
    return jnp.matmul(sparseA, denseB)
