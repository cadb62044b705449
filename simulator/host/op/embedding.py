"""Rows of a table."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.op.common import op


@op
def Embedding(name: str, embedding_table: Any, indices: Any) -> Any:
    """Returns the rows of the table that `indices` number, which the host looks up, as in TT-Buda."""
    return embedding_table[indices.astype(jnp.int32)]
