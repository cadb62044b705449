"""BERT (Devlin et al. 2018), uncased, with pooler, in any of its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built

if TYPE_CHECKING:
    import jax

VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
SEQUENCE = 128
EPSILON = 1e-12
TENSOR_PARALLEL = {
    r"layer\d+\.attention\.(query|key|value)\.weight": ",model",
    r"layer\d+\.attention\.(query|key|value)\.bias": "model",
    r"layer\d+\.attention\.output\.weight": "model",
    r"layer\d+\.intermediate\.weight": ",model",
    r"layer\d+\.intermediate\.bias": "model",
    r"layer\d+\.output\.weight": "model",
}
"""Heads and inner widths over axis `model` (Shoeybi et al. 2019): two all_reduce a layer."""


@dataclass(frozen=True)
class Size:
    """What the sizes of BERT differ in."""

    width: int
    layers: int
    heads: int

    @property
    def inner(self) -> int:
        """Width between the two products of a layer's second half."""
        return 4 * self.width


def bert(dtype: str, size: Size) -> Built:
    """One sequence; returns the last hidden state, (1, 128, width), and the pooled output, (1, width)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import attention, dense, dense_arguments, gelu_exact, layer_norm, layer_norm_arguments

    specs = [
        ArgSpec("embeddings.word", (VOCABULARY, size.width), dtype, "normal:0.5"),
        ArgSpec("embeddings.position", (POSITIONS, size.width), dtype, "normal:0.3"),
        ArgSpec("embeddings.type", (TYPES, size.width), dtype, "normal:0.3"),
        *layer_norm_arguments("embeddings.norm", size.width, dtype),
    ]
    for i in range(size.layers):
        for part in ("query", "key", "value", "output"):
            specs += dense_arguments(f"layer{i}.attention.{part}", size.width, size.width, dtype)
        specs += layer_norm_arguments(f"layer{i}.attention.norm", size.width, dtype)
        specs += dense_arguments(f"layer{i}.intermediate", size.width, size.inner, dtype)
        specs += dense_arguments(f"layer{i}.output", size.inner, size.width, dtype)
        specs += layer_norm_arguments(f"layer{i}.output.norm", size.width, dtype)
    specs += dense_arguments("pooler", size.width, size.width, dtype)
    specs += [
        ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"),
        ArgSpec("token_type_ids", (1, SEQUENCE), "int32", f"int:0:{TYPES}", "input"),
        ArgSpec("attention_mask", (1, SEQUENCE), "int32", "int:0:2", "input"),
    ]

    def embed(w: Mapping[str, Any]) -> jax.Array:
        with jax.named_scope("embeddings"):
            words = w["embeddings.word"][w["input_ids"]]
            kinds = w["embeddings.type"][w["token_type_ids"]]
            x = words + kinds + w["embeddings.position"][:SEQUENCE]
            return layer_norm(w, "embeddings.norm", x, EPSILON)

    def layer(w: Mapping[str, Any], name: str, x: jax.Array, mask: jax.Array) -> jax.Array:
        q, k, v = (dense(w, f"{name}.attention.{part}", x) for part in ("query", "key", "value"))
        attended = dense(w, f"{name}.attention.output", attention(q, k, v, size.heads, mask))
        x = layer_norm(w, f"{name}.attention.norm", x + attended, EPSILON)
        inner = gelu_exact(dense(w, f"{name}.intermediate", x))
        return layer_norm(w, f"{name}.output.norm", x + dense(w, f"{name}.output", inner), EPSILON)

    def forward(w: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
        x = embed(w)
        with jax.named_scope("mask"):
            # Masked tokens lose 10000 on every score, as in the published implementation.
            mask = (1 - w["attention_mask"][:, None, None, :].astype(x.dtype)) * -10000.0
        for i in range(size.layers):
            x = layer(w, f"layer{i}", x, mask)
        return x, jnp.tanh(dense(w, "pooler", x[:, 0]))

    return Built(forward, tuple(specs))
