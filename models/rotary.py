"""Rotary positions, and the grouped attention of decoders that use them. Imports jax: to be imported inside `build`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from opscope.models.arguments import ArgSpec
from opscope.models.layers import linear_arguments, softmax


def rotate(x: jax.Array, base: float = 10000.0, first: int | jax.Array = 0) -> jax.Array:
    """Rotary position embedding (Su et al. 2021) of (batch, heads, tokens, width), halves paired as Llama does.

    `first` is the position of the first token.
    """
    tokens, width = x.shape[-2:]
    with jax.named_scope("rotary"):
        frequencies = base ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
        places = jnp.arange(tokens, dtype=jnp.float32)
        if not isinstance(first, int) or first:
            places = places + jnp.asarray(first, jnp.float32)
        angles = places[:, None] * frequencies
        cosine, sine = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
        first, second = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def grouped_attention(q: jax.Array, k: jax.Array, v: jax.Array, heads: int, groups: int, mask: jax.Array) -> jax.Array:
    """Causal attention in which `heads // groups` query heads share a key and value head (Ainslie et al. 2023).

    Takes and returns (batch, tokens, ...) projections; queries and keys are rotated.
    """
    batch, tokens, width = q.shape
    depth = width // heads

    def split(x: jax.Array, count: int) -> jax.Array:
        return x.reshape(batch, tokens, count, depth).transpose(0, 2, 1, 3)

    with jax.named_scope("attention"):
        queries = rotate(split(q, heads))
        keys, values = (jnp.repeat(x, heads // groups, axis=1) for x in (rotate(split(k, groups)), split(v, groups)))
        scores = jnp.matmul(queries, keys.transpose(0, 1, 3, 2)) * depth**-0.5
        return jnp.matmul(softmax(scores + mask), values).transpose(0, 2, 1, 3).reshape(batch, tokens, width)


def grouped_attention_arguments(name: str, width: int, keys: int, dtype: str, gain: float) -> list[ArgSpec]:
    """The arguments of the projections around `grouped_attention`: `.q`, `.k`, `.v`, `.o`, the last scaled by `gain`.

    `width` is that of the queries and of the result, `keys` that of keys and of values.
    """
    projections = (("q", width, 1.0), ("k", keys, 1.0), ("v", keys, 1.0), ("o", width, gain))
    return [
        spec
        for part, outputs, g in projections
        for spec in linear_arguments(f"{name}.{part}", width, outputs, dtype, g)
    ]
