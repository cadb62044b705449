"""Deep learning recommendation model (Naumov et al. 2019): 26 tables of 1000 rows instead of up to 10 million."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

BATCH, TABLES, ROWS, WIDTH, HOT = 16, 26, 1000, 64, 3
BOTTOM = (13, 512, 256, WIDTH)
PAIRS = (TABLES + 1) * TABLES // 2
TOP = (PAIRS + WIDTH, 512, 256, 1)


@model(name="dlrm_reduced", family="recommender", size="reduced")
def build(dtype: str) -> Built:
    """`BATCH` visitors, each table pooled over `HOT` entries; returns the logit of a click, (BATCH, 1)."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from opscope.models.layers import dense, dense_arguments

    specs = [ArgSpec(f"table{i}", (ROWS, WIDTH), dtype, "normal:0.2") for i in range(TABLES)]
    for side, widths in (("bottom", BOTTOM), ("top", TOP)):
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            specs += dense_arguments(f"{side}{i}", inputs, outputs, dtype, 1.4)
    specs.append(ArgSpec("dense", (BATCH, 13), dtype, "normal:1", "input"))
    specs.append(ArgSpec("sparse", (TABLES, BATCH, HOT), "int32", f"int:0:{ROWS}", "input"))

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["dense"]
        for i in range(3):
            x = jnp.maximum(dense(w, f"bottom{i}", x), 0)
        with jax.named_scope("tables"):
            pooled = [jnp.sum(w[f"table{i}"][w["sparse"][i]], axis=1) for i in range(TABLES)]
        with jax.named_scope("interaction"):
            vectors = jnp.stack([x, *pooled], axis=1)
            products = jnp.matmul(vectors, vectors.transpose(0, 2, 1))
            rows, columns = np.tril_indices(TABLES + 1, -1)
            x = jnp.concatenate([x, products[:, rows, columns]], axis=-1)
        for i in range(3):
            x = dense(w, f"top{i}", x)
            x = jnp.maximum(x, 0) if i < 2 else x
        return x

    return Built(forward, tuple(specs))
