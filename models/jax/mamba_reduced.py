"""Mamba (Gu and Dao 2023), selective state spaces: 4 of 24 layers, width 256 of 768; the recurrence is a loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, SEQUENCE = 4096, 32
WIDTH, LAYERS, INNER, STATE, RANK, TAPS = 256, 4, 512, 16, 16, 4
EPSILON = 1e-5


@model(name="mamba_reduced", family="state_space", size="reduced")
def build(dtype: str) -> Built:
    """One sequence; returns the logits of the next token, (1, SEQUENCE, VOCABULARY)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from opscope.models.layers import dense, dense_arguments, linear, linear_arguments, rms_norm, rms_norm_arguments

    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:0.1")]
    for i in range(LAYERS):
        name = f"layer{i}"
        specs += rms_norm_arguments(f"{name}.norm", WIDTH, dtype)
        specs += linear_arguments(f"{name}.input", WIDTH, 2 * INNER, dtype)
        specs.append(ArgSpec(f"{name}.conv.weight", (TAPS, 1, INNER), dtype, f"normal:{TAPS**-0.5:g}"))
        specs.append(ArgSpec(f"{name}.conv.bias", (INNER,), dtype, "normal:0.02"))
        specs += linear_arguments(f"{name}.select", INNER, RANK + 2 * STATE, dtype)
        specs += dense_arguments(f"{name}.step", RANK, INNER, dtype)
        # A state decays by exp(-step * exp(decay)); the published start is the logarithm of 1..STATE.
        specs.append(ArgSpec(f"{name}.decay", (INNER, STATE), dtype, f"uniform:0:{math.log(STATE):.4f}"))
        specs.append(ArgSpec(f"{name}.skip", (INNER,), dtype, "normal:1:0.1"))
        specs += linear_arguments(f"{name}.output", INNER, WIDTH, dtype)
    specs += rms_norm_arguments("norm", WIDTH, dtype)
    specs.append(ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"))

    def scan(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        """The selective scan of (SEQUENCE, INNER)."""
        parts = linear(w, f"{name}.select", x)
        step = jax.nn.softplus(dense(w, f"{name}.step", parts[:, :RANK]))
        into, out = parts[:, RANK : RANK + STATE], parts[:, RANK + STATE :]
        decay = -jnp.exp(w[f"{name}.decay"])

        def one(state: jax.Array, at: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            token, width, enter, leave = at
            state = jnp.exp(width[:, None] * decay) * state + (width * token)[:, None] * enter
            return state, state @ leave

        with jax.named_scope(f"{name}.scan"):
            _, y = lax.scan(one, jnp.zeros((INNER, STATE), x.dtype), (x, step, into, out))
        return y + x * w[f"{name}.skip"]

    def mix(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        x, gate = jnp.split(linear(w, f"{name}.input", x), 2, axis=-1)
        with jax.named_scope(f"{name}.conv"):
            taps = w[f"{name}.conv.weight"]
            layout = ("NWC", "WIO", "NWC")
            x = lax.conv_general_dilated(
                x, taps, (1,), ((TAPS - 1, 0),), dimension_numbers=layout, feature_group_count=INNER
            )
            x = jax.nn.silu(x + w[f"{name}.conv.bias"])
        y = scan(w, name, x[0])[None]
        return linear(w, f"{name}.output", y * jax.nn.silu(gate))

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["input_ids"]]
        for i in range(LAYERS):
            x = x + mix(w, f"layer{i}", rms_norm(w, f"layer{i}.norm", x, EPSILON))
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T

    return Built(forward, tuple(specs))
