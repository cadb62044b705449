"""A decoder as Llama is one (Touvron et al. 2023), in any size: RMSNorm, rotary positions, grouped queries, SwiGLU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built

if TYPE_CHECKING:
    import jax

EPSILON = 1e-5
TENSOR_PARALLEL = {
    r"layer\d+\.(q|k|v|gate|up)\.weight": ",model",
    r"layer\d+\.(o|down)\.weight": "model",
    "embedding": "model",
}
"""Heads, inner widths and the vocabulary over axis `model`: two all_reduce a layer, one for the embedding."""


@dataclass(frozen=True)
class Size:
    """What the sizes of Llama differ in."""

    vocabulary: int
    sequence: int
    width: int
    layers: int
    heads: int
    groups: int
    """Heads of keys and values."""
    inner: int
    """Width between the products of a layer's second half."""


def llama(dtype: str, size: Size) -> Built:
    """The decoder of one sequence without cache, logits by the tied embedding: (1, sequence, vocabulary)."""
    import jax

    from opscope.models.layers import causal_mask, linear, linear_arguments, rms_norm, rms_norm_arguments
    from opscope.models.rotary import grouped_attention, grouped_attention_arguments

    residual = 1 / math.sqrt(2 * size.layers)
    keys = size.width // size.heads * size.groups
    specs = [ArgSpec("embedding", (size.vocabulary, size.width), dtype, "normal:0.1")]
    for i in range(size.layers):
        specs += rms_norm_arguments(f"layer{i}.norm1", size.width, dtype)
        specs += grouped_attention_arguments(f"layer{i}", size.width, keys, dtype, residual)
        specs += rms_norm_arguments(f"layer{i}.norm2", size.width, dtype)
        specs += linear_arguments(f"layer{i}.gate", size.width, size.inner, dtype)
        specs += linear_arguments(f"layer{i}.up", size.width, size.inner, dtype)
        specs += linear_arguments(f"layer{i}.down", size.inner, size.width, dtype, residual)
    specs += rms_norm_arguments("norm", size.width, dtype)
    specs.append(ArgSpec("input_ids", (1, size.sequence), "int32", f"int:0:{size.vocabulary}", "input"))

    def block(w: Mapping[str, Any], name: str, x: jax.Array, mask: jax.Array) -> jax.Array:
        y = rms_norm(w, f"{name}.norm1", x, EPSILON)
        q, k, v = (linear(w, f"{name}.{part}", y) for part in "qkv")
        x = x + linear(w, f"{name}.o", grouped_attention(q, k, v, size.heads, size.groups, mask))
        y = rms_norm(w, f"{name}.norm2", x, EPSILON)
        gated = jax.nn.silu(linear(w, f"{name}.gate", y)) * linear(w, f"{name}.up", y)
        return x + linear(w, f"{name}.down", gated)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["input_ids"]]
        mask = causal_mask(size.sequence, x.dtype)
        for i in range(size.layers):
            x = block(w, f"layer{i}", x, mask)
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T

    return Built(forward, tuple(specs))
