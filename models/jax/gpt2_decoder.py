"""GPT-2 (Radford et al. 2019) with a cache: 4 of 12 layers, width 384 of 768, 8,192 of 50,257 tokens.

Reduced so that a simulated step takes a fraction of a second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.decoding import CONTEXT, Decoder, Weights, cached_attention, caches, split_heads
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 8192, 384, 4, 6, 1536
EPSILON = 1e-5


def _decoder(dtype: str) -> Decoder:
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import dense, dense_arguments, gelu_tanh, layer_norm, layer_norm_arguments

    residual = 1 / math.sqrt(2 * LAYERS)
    names = [f"h{i}" for i in range(LAYERS)]
    specs = [
        ArgSpec("wte", (VOCABULARY, WIDTH), dtype, "normal:0.1"),
        ArgSpec("wpe", (CONTEXT, WIDTH), dtype, "normal:0.1"),
    ]
    for name in names:
        specs += layer_norm_arguments(f"{name}.norm1", WIDTH, dtype)
        specs += dense_arguments(f"{name}.qkv", WIDTH, 3 * WIDTH, dtype)
        specs += dense_arguments(f"{name}.projection", WIDTH, WIDTH, dtype, residual)
        specs += layer_norm_arguments(f"{name}.norm2", WIDTH, dtype)
        specs += dense_arguments(f"{name}.up", WIDTH, INNER, dtype)
        specs += dense_arguments(f"{name}.down", INNER, WIDTH, dtype, residual)
    specs += layer_norm_arguments("norm", WIDTH, dtype)

    def forward(w: Weights, ids: jax.Array, position: Any) -> tuple[jax.Array, list[jax.Array]]:
        states: list[jax.Array] = []
        with jax.named_scope("embeddings"):
            x = w["wte"][ids] + w["wpe"][position + jnp.arange(ids.shape[1])]
        for name in names:
            qkv = dense(w, f"{name}.qkv", layer_norm(w, f"{name}.norm1", x, EPSILON))
            q, k, v = (split_heads(part, HEADS) for part in jnp.split(qkv, 3, axis=-1))
            attended, written = cached_attention(w, name, q, k, v, position)
            states += written
            x = x + dense(w, f"{name}.projection", attended)
            inner = gelu_tanh(dense(w, f"{name}.up", layer_norm(w, f"{name}.norm2", x, EPSILON)))
            x = x + dense(w, f"{name}.down", inner)
        x = layer_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["wte"].T, states

    return Decoder(specs, caches(names, HEADS, WIDTH // HEADS, dtype), VOCABULARY, forward)


@model(name="gpt2_prefill", family="decoder", size="reduced", trainable=False)
def build_prefill(dtype: str) -> Built:
    """A prompt into empty caches; returns logits (1, 32, VOCABULARY) and the caches."""
    return _decoder(dtype).prefill()


@model(name="gpt2_decode", family="decoder", size="reduced", trainable=False)
def build_decode(dtype: str) -> Built:
    """One token; returns logits (1, 1, VOCABULARY) and the caches."""
    return _decoder(dtype).decode()
