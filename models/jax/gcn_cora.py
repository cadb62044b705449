"""Graph convolutional network (Kipf and Welling 2017) at the size of the Cora citations: 23,063 parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

NODES, EDGES = 2708, 10556
WIDTHS = (1433, 16, 7)


@model(name="gcn_cora", family="graph")
def build(dtype: str) -> Built:
    """The graph, random edges in place of the data set's; returns the logits of each node, (NODES, 7)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import dense_arguments

    specs = dense_arguments("layer0", WIDTHS[0], WIDTHS[1], dtype, 3.0)
    specs += dense_arguments("layer1", WIDTHS[1], WIDTHS[2], dtype, 3.0)
    specs.append(ArgSpec("features", (NODES, WIDTHS[0]), dtype, "normal:1", "input"))
    specs.append(ArgSpec("edges", (2, EDGES), "int32", f"int:0:{NODES}", "input"))

    def forward(w: Mapping[str, Any]) -> jax.Array:
        source, target = w["edges"]
        x = w["features"]
        with jax.named_scope("degrees"):
            ones = jnp.ones((EDGES,), x.dtype)
            # Every node is its own neighbour too.
            scale = jax.lax.rsqrt(jax.ops.segment_sum(ones, target, NODES) + 1)
        for i in range(2):
            with jax.named_scope(f"layer{i}"):
                x = (x @ w[f"layer{i}.weight"]) * scale[:, None]
                x = (jax.ops.segment_sum(x[source], target, NODES) + x) * scale[:, None] + w[f"layer{i}.bias"]
                x = jnp.maximum(x, 0) if i == 0 else x
        return x

    return Built(forward, tuple(specs))
