"""GPT-2 small (Radford et al. 2019), sequence 128, logits by the tied embedding: 124,439,808 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, POSITIONS = 50257, 1024
WIDTH, LAYERS, HEADS, INNER = 768, 12, 12, 3072
SEQUENCE = 128
EPSILON = 1e-5


@model(name="gpt2_small", family="decoder")
def build(dtype: str) -> Built:
    """The decoder of one sequence without cache; returns the logits of the next token, (1, 128, 50257)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import attention, dense, dense_arguments, gelu_tanh, layer_norm, layer_norm_arguments

    # As published: what is added to the residual stream is scaled by the number of such additions.
    residual = 1 / math.sqrt(2 * LAYERS)
    specs = [
        ArgSpec("wte", (VOCABULARY, WIDTH), dtype, "normal:0.1"),
        ArgSpec("wpe", (POSITIONS, WIDTH), dtype, "normal:0.1"),
    ]
    for i in range(LAYERS):
        specs += layer_norm_arguments(f"h{i}.norm1", WIDTH, dtype)
        specs += dense_arguments(f"h{i}.attention.qkv", WIDTH, 3 * WIDTH, dtype)
        specs += dense_arguments(f"h{i}.attention.projection", WIDTH, WIDTH, dtype, residual)
        specs += layer_norm_arguments(f"h{i}.norm2", WIDTH, dtype)
        specs += dense_arguments(f"h{i}.mlp.up", WIDTH, INNER, dtype)
        specs += dense_arguments(f"h{i}.mlp.down", INNER, WIDTH, dtype, residual)
    specs += layer_norm_arguments("norm", WIDTH, dtype)
    specs.append(ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"))

    def block(w: Mapping[str, Any], name: str, x: jax.Array, mask: jax.Array) -> jax.Array:
        qkv = dense(w, f"{name}.attention.qkv", layer_norm(w, f"{name}.norm1", x, EPSILON))
        q, k, v = jnp.split(qkv, 3, axis=-1)
        x = x + dense(w, f"{name}.attention.projection", attention(q, k, v, HEADS, mask))
        inner = gelu_tanh(dense(w, f"{name}.mlp.up", layer_norm(w, f"{name}.norm2", x, EPSILON)))
        return x + dense(w, f"{name}.mlp.down", inner)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        with jax.named_scope("embeddings"):
            x = w["wte"][w["input_ids"]] + w["wpe"][:SEQUENCE]
        with jax.named_scope("causal_mask"):
            rows, columns = (jax.lax.broadcasted_iota("int32", (SEQUENCE, SEQUENCE), d) for d in (0, 1))
            mask = jnp.where(columns <= rows, 0.0, -10000.0).astype(x.dtype)
        for i in range(LAYERS):
            x = block(w, f"h{i}", x, mask)
        x = layer_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["wte"].T

    return Built(forward, tuple(specs))
