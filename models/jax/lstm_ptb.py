"""The small LSTM language model of Zaremba et al. (2014): 2 layers of 200, vocabulary 10,000; 4,651,600 parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, WIDTH, LAYERS = 10000, 200, 2
BATCH, STEPS = 20, 20


@model(name="lstm_ptb", family="recurrent")
def build(dtype: str) -> Built:
    """`BATCH` sequences of `STEPS` words, one loop per layer; returns logits, (STEPS, BATCH, VOCABULARY)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from opscope.models.layers import dense, dense_arguments

    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:1")]
    for i in range(LAYERS):
        specs += dense_arguments(f"layer{i}", 2 * WIDTH, 4 * WIDTH, dtype)
    specs += dense_arguments("logits", WIDTH, VOCABULARY, dtype, 8.0)
    specs.append(ArgSpec("input_ids", (STEPS, BATCH), "int32", f"int:0:{VOCABULARY}", "input"))

    def layer(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        """All outputs of one layer, from a state of zeros."""

        def step(state: tuple[jax.Array, jax.Array], word: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            hidden, cell = state
            gates = dense(w, name, jnp.concatenate([word, hidden], axis=-1))
            into, forget, new, out = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((BATCH, WIDTH), x.dtype)
        with jax.named_scope(f"{name}.loop"):
            return lax.scan(step, (zeros, zeros), x)[1]

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["input_ids"]]
        for i in range(LAYERS):
            x = layer(w, f"layer{i}", x)
        return dense(w, "logits", x)

    return Built(forward, tuple(specs))
