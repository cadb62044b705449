"""A decoder as Llama is one (Touvron et al. 2023), with grouped queries (Ainslie et al. 2023) and a cache.

Reduced: 4 layers of width 384, so that a simulated step takes a fraction of a second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.decoding import Decoder, Weights, cached_attention, caches, split_heads
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, WIDTH, LAYERS, HEADS, GROUPS, INNER = 8192, 384, 4, 6, 2, 1024
EPSILON = 1e-5


def _decoder(dtype: str) -> Decoder:
    import jax

    from opscope.models.layers import linear, linear_arguments, rms_norm, rms_norm_arguments
    from opscope.models.rotary import grouped_attention_arguments, rotate

    residual, depth = 1 / math.sqrt(2 * LAYERS), WIDTH // HEADS
    names = [f"layer{i}" for i in range(LAYERS)]
    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:0.1")]
    for name in names:
        specs += rms_norm_arguments(f"{name}.norm1", WIDTH, dtype)
        specs += grouped_attention_arguments(name, WIDTH, depth * GROUPS, dtype, residual)
        specs += rms_norm_arguments(f"{name}.norm2", WIDTH, dtype)
        specs += linear_arguments(f"{name}.gate", WIDTH, INNER, dtype)
        specs += linear_arguments(f"{name}.up", WIDTH, INNER, dtype)
        specs += linear_arguments(f"{name}.down", INNER, WIDTH, dtype, residual)
    specs += rms_norm_arguments("norm", WIDTH, dtype)

    def forward(w: Weights, ids: jax.Array, position: Any) -> tuple[jax.Array, list[jax.Array]]:
        states: list[jax.Array] = []
        x = w["embedding"][ids]
        for name in names:
            y = rms_norm(w, f"{name}.norm1", x, EPSILON)
            query, key, value = (
                split_heads(linear(w, f"{name}.{part}", y), count)
                for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS))
            )
            query, key = (rotate(part, first=position) for part in (query, key))
            attended, written = cached_attention(w, name, query, key, value, position)
            states += written
            x = x + linear(w, f"{name}.o", attended)
            y = rms_norm(w, f"{name}.norm2", x, EPSILON)
            x = x + linear(w, f"{name}.down", jax.nn.silu(linear(w, f"{name}.gate", y)) * linear(w, f"{name}.up", y))
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T, states

    return Decoder(specs, caches(names, GROUPS, depth, dtype), VOCABULARY, forward)


@model(name="llama_prefill", family="decoder", size="reduced", trainable=False)
def build_prefill(dtype: str) -> Built:
    """A prompt into empty caches; returns logits (1, 32, VOCABULARY) and the caches."""
    return _decoder(dtype).prefill()


@model(name="llama_decode", family="decoder", size="reduced", trainable=False)
def build_decode(dtype: str) -> Built:
    """One token; returns logits (1, 1, VOCABULARY) and the caches."""
    return _decoder(dtype).decode()
