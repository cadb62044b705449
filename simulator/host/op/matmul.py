"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.op.common import op


@op
def Matmul(name: str, operandA: Any, operandB: Any, bias: Any = None) -> Any:
    """Returns A @ B over the last two dimensions, plus a bias that is repeated over rows."""
    product = _product(operandA, operandB)
    return product if bias is None else product + bias


@op
def SparseMatmul(name: str, sparseA: Any, denseB: Any) -> Any:
    """Returns A @ B. A is held densely here; a convolution's picker is the sparse one, and the compiler makes it."""
    return _product(sparseA, denseB)


def _product(left: Any, right: Any) -> Any:
    """Returns A @ B. One A is read again for each of several B, where JAX would put these side by side in one product
    that is as wide as all of them."""
    count, one = math.prod(right.shape[:-2]), left.shape[-2:]
    if left.ndim < 2 or left.size != math.prod(one) or count < 2 or left.ndim > right.ndim:
        return jnp.matmul(left, right)
    made = jnp.matmul(jnp.broadcast_to(left.reshape(one), (count, *one)), right.reshape(count, *right.shape[-2:]))
    return made.reshape(*right.shape[:-2], *made.shape[-2:])
