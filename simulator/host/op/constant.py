"""A constant of the program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.op.common import op


@op
def Constant(name: str, *, constant: float) -> Any:
    """Returns one number, of shape (1,), that other operands repeat."""
    return jnp.full((1,), constant, jnp.float32)
