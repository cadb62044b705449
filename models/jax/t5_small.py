"""T5 small (Raffel et al. 2020), encoder and decoder with relative positions: 60,506,624 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, SOURCE, TARGET = 32128, 64, 32
WIDTH, LAYERS, HEADS, INNER = 512, 6, 8, 2048
BUCKETS, FARTHEST = 32, 128
EPSILON = 1e-6


@model(name="t5_small", family="encoder_decoder")
def build(dtype: str) -> Built:
    """One source and one target sequence; returns the logits of the next target token, (1, TARGET, VOCABULARY)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import causal_mask, linear, linear_arguments, rms_norm, rms_norm_arguments, softmax

    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:1")]
    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        specs.append(ArgSpec(f"{side}.positions", (BUCKETS, HEADS), dtype, "normal:0.5"))
        for i in range(LAYERS):
            for attention in attentions:
                name = f"{side}{i}.{attention}"
                specs += rms_norm_arguments(f"{name}.norm", WIDTH, dtype)
                # Scores are not divided by the root of the depth here, so the query's scale must do it.
                specs += linear_arguments(f"{name}.q", WIDTH, WIDTH, dtype, (WIDTH // HEADS) ** -0.5)
                for part in "kvo":
                    specs += linear_arguments(f"{name}.{part}", WIDTH, WIDTH, dtype)
            specs += rms_norm_arguments(f"{side}{i}.norm", WIDTH, dtype)
            specs += linear_arguments(f"{side}{i}.up", WIDTH, INNER, dtype)
            specs += linear_arguments(f"{side}{i}.down", INNER, WIDTH, dtype)
        specs += rms_norm_arguments(f"{side}.norm", WIDTH, dtype)
    specs.append(ArgSpec("source_ids", (1, SOURCE), "int32", f"int:0:{VOCABULARY}", "input"))
    specs.append(ArgSpec("target_ids", (1, TARGET), "int32", f"int:0:{VOCABULARY}", "input"))

    def buckets(tokens: int, both: bool) -> jax.Array:
        """The bucket of each (query, key) distance: exact when near, logarithmic up to FARTHEST."""
        places = jnp.arange(tokens, dtype=jnp.int32)
        distance = places[:, None] - places
        count = BUCKETS // 2 if both else BUCKETS
        start = jnp.where(distance < 0, count, 0) if both else jnp.zeros_like(distance)
        distance = jnp.abs(distance) if both else jnp.maximum(distance, 0)
        exact = count // 2
        ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact) / math.log(FARTHEST / exact)
        far = exact + (ratio * (count - exact)).astype(jnp.int32)
        return start + jnp.where(distance < exact, distance, jnp.minimum(far, count - 1))

    def attend(w: Mapping[str, Any], name: str, x: jax.Array, memory: jax.Array | None, bias: Any) -> jax.Array:
        """What one attention adds; `memory` is what keys and values come from, None: the normalised x itself."""

        def split(y: jax.Array) -> jax.Array:
            return y.reshape(1, y.shape[1], HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

        y = rms_norm(w, f"{name}.norm", x, EPSILON)
        context = y if memory is None else memory
        q, k, v = (split(linear(w, f"{name}.{p}", c)) for p, c in (("q", y), ("k", context), ("v", context)))
        with jax.named_scope(f"{name}.attention"):
            scores = jnp.matmul(q, k.transpose(0, 1, 3, 2))
            weights = softmax(scores if bias is None else scores + bias)
            joined = jnp.matmul(weights, v).transpose(0, 2, 1, 3).reshape(x.shape)
        return linear(w, f"{name}.o", joined)

    def feed(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        y = linear(w, f"{name}.up", rms_norm(w, f"{name}.norm", x, EPSILON))
        return linear(w, f"{name}.down", jnp.maximum(y, 0))

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["source_ids"]]
        bias = w["encoder.positions"][buckets(SOURCE, both=True)].transpose(2, 0, 1)
        for i in range(LAYERS):
            x = x + attend(w, f"encoder{i}.self", x, None, bias)
            x = x + feed(w, f"encoder{i}", x)
        memory = rms_norm(w, "encoder.norm", x, EPSILON)
        x = w["embedding"][w["target_ids"]]
        bias = w["decoder.positions"][buckets(TARGET, both=False)].transpose(2, 0, 1) + causal_mask(TARGET, x.dtype)
        for i in range(LAYERS):
            x = x + attend(w, f"decoder{i}.self", x, None, bias)
            x = x + attend(w, f"decoder{i}.cross", x, memory, None)
            x = x + feed(w, f"decoder{i}", x)
        with jax.named_scope("logits"):
            # As published: tied to the embedding, scaled by the root of the width.
            return (rms_norm(w, "decoder.norm", x, EPSILON) * WIDTH**-0.5) @ w["embedding"].T

    return Built(forward, tuple(specs))
