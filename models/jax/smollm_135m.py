"""SmolLM 135M (Allal et al. 2024): 134,515,008 parameters.

A decoder as Llama is one: RMSNorm, rotary positions, grouped queries, SwiGLU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, SEQUENCE = 49152, 64
WIDTH, LAYERS, HEADS, GROUPS, INNER = 576, 30, 9, 3, 1536
EPSILON = 1e-5


@model(name="smollm_135m", family="decoder")
def build(dtype: str) -> Built:
    """The decoder of one sequence without cache; returns the logits of the next token, (1, SEQUENCE, VOCABULARY)."""
    import jax

    from opscope.models.layers import causal_mask, linear, linear_arguments, rms_norm, rms_norm_arguments
    from opscope.models.rotary import grouped_attention, grouped_attention_arguments

    residual = 1 / math.sqrt(2 * LAYERS)
    keys = WIDTH // HEADS * GROUPS
    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:0.1")]
    for i in range(LAYERS):
        specs += rms_norm_arguments(f"layer{i}.norm1", WIDTH, dtype)
        specs += grouped_attention_arguments(f"layer{i}", WIDTH, keys, dtype, residual)
        specs += rms_norm_arguments(f"layer{i}.norm2", WIDTH, dtype)
        specs += linear_arguments(f"layer{i}.gate", WIDTH, INNER, dtype)
        specs += linear_arguments(f"layer{i}.up", WIDTH, INNER, dtype)
        specs += linear_arguments(f"layer{i}.down", INNER, WIDTH, dtype, residual)
    specs += rms_norm_arguments("norm", WIDTH, dtype)
    specs.append(ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"))

    def block(w: Mapping[str, Any], name: str, x: jax.Array, mask: jax.Array) -> jax.Array:
        y = rms_norm(w, f"{name}.norm1", x, EPSILON)
        q, k, v = (linear(w, f"{name}.{part}", y) for part in "qkv")
        x = x + linear(w, f"{name}.o", grouped_attention(q, k, v, HEADS, GROUPS, mask))
        y = rms_norm(w, f"{name}.norm2", x, EPSILON)
        gated = jax.nn.silu(linear(w, f"{name}.gate", y)) * linear(w, f"{name}.up", y)
        return x + linear(w, f"{name}.down", gated)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["input_ids"]]
        mask = causal_mask(SEQUENCE, x.dtype)
        for i in range(LAYERS):
            x = block(w, f"layer{i}", x, mask)
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T

    return Built(forward, tuple(specs))
