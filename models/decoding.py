"""Decoders with a cache as two modules, which share weights and states: `NAME_prefill` of a prompt, `NAME_decode` of a
token. Each takes the states as arguments and returns the logits and the states after it. Imports jax lazily.

A file in `models/jax/` describes one decoder as `Decoder` and registers both modules; `opscope decode NAME` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built

if TYPE_CHECKING:
    import jax

PROMPT, CONTEXT = 32, 128
"""Tokens of the prompt, and positions of a cache."""
Weights = Mapping[str, Any]
Forward = Callable[[Weights, "jax.Array", Any], "tuple[jax.Array, list[jax.Array]]"]
"""(arguments, tokens (1, count), position of the first) -> logits (1, count, vocabulary), states after them."""


@dataclass(frozen=True)
class Decoder:
    """A decoder: its arguments and the function of any number of tokens."""

    parameters: Sequence[ArgSpec]
    states: Sequence[ArgSpec]
    vocabulary: int
    forward: Forward

    def prefill(self) -> Built:
        """The module of a prompt, whose first token stands at position 0."""
        ids = ArgSpec("input_ids", (1, PROMPT), "int32", f"int:0:{self.vocabulary}", "input")

        def forward(w: Weights) -> tuple[jax.Array, ...]:
            logits, states = self.forward(w, w["input_ids"], 0)
            return (logits, *states)

        return Built(forward, (*self.parameters, *self.states, ids))

    def decode(self) -> Built:
        """The module of one token at a position that is known at run time."""
        ids = ArgSpec("input_ids", (1, 1), "int32", f"int:0:{self.vocabulary}", "input")
        position = ArgSpec("position", (), "int32", f"int:{PROMPT}:{CONTEXT}", "input")

        def forward(w: Weights) -> tuple[jax.Array, ...]:
            logits, states = self.forward(w, w["input_ids"], w["position"])
            return (logits, *states)

        return Built(forward, (*self.parameters, *self.states, ids, position))


def caches(names: Sequence[str], heads: int, width: int, dtype: str) -> list[ArgSpec]:
    """The states `NAME.keys` and `NAME.values` of layers with attention: (1, heads, CONTEXT, width), empty at first."""
    return [
        ArgSpec(f"{name}.{part}", (1, heads, CONTEXT, width), dtype, "zeros", "state")
        for name in names
        for part in ("keys", "values")
    ]


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """(1, tokens, heads * width) -> (1, heads, tokens, width)."""
    return x.reshape(1, x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def cached_attention(
    w: Weights, name: str, query: jax.Array, key: jax.Array, value: jax.Array, position: Any
) -> tuple[jax.Array, list[jax.Array]]:
    """Writes keys and values (1, groups, tokens, width) at `position`, and attends to all up to each token.

    Returns (1, tokens, heads * width), and the two caches.
    """
    import jax
    import jax.numpy as jnp

    with jax.named_scope(f"{name}.attention"):
        heads, tokens, width = query.shape[1:]
        written = [
            jax.lax.dynamic_update_slice(w[f"{name}.{part}"], new, (0, 0, position, 0))
            for part, new in (("keys", key), ("values", value))
        ]
        keys, values = (jnp.repeat(x, heads // x.shape[1], axis=1) for x in written)
        scores = jnp.matmul(query, keys.transpose(0, 1, 3, 2)) * width**-0.5
        seen = jnp.arange(CONTEXT)[None] <= position + jnp.arange(tokens)[:, None]
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
        out = jnp.matmul(weights, values).transpose(0, 2, 1, 3).reshape(1, tokens, heads * width)
        return out, written
