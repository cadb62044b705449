"""A hybrid decoder as Griffin is one (De et al. 2024): two recurrent layers, then one with attention, twice.

A recurrent layer's state is that of its gated linear recurrence (RG-LRU, eq. 1-4) and the last inputs of its short
convolution. Reduced: 6 layers of width 256, so that a simulated step takes a fraction of a second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from opscope.models.arguments import ArgSpec, Built
from opscope.models.decoding import Decoder, Weights, cached_attention, caches, split_heads
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, WIDTH, LAYERS, HEADS, GROUPS, INNER, TAPS = 8192, 256, 6, 4, 1, 768, 4
SHARPNESS = 8.0
"""c of eq. 3: the decay is a^(c r)."""
EPSILON = 1e-6


NAMES = [f"layer{i}" for i in range(LAYERS)]
ATTENDING = NAMES[2::3]


def _arguments(dtype: str) -> tuple[list[ArgSpec], list[ArgSpec]]:
    """Weights, and what the layers keep from step to step."""
    from opscope.models.layers import dense_arguments, linear_arguments, rms_norm_arguments
    from opscope.models.rotary import grouped_attention_arguments

    residual, depth = 1 / math.sqrt(2 * LAYERS), WIDTH // HEADS
    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:0.1")]
    states: list[ArgSpec] = []
    for name in NAMES:
        specs += rms_norm_arguments(f"{name}.norm1", WIDTH, dtype)
        if name in ATTENDING:
            specs += grouped_attention_arguments(name, WIDTH, depth * GROUPS, dtype, residual)
            states += caches([name], GROUPS, depth, dtype)
        else:
            for part in ("gate", "input"):
                specs += linear_arguments(f"{name}.{part}", WIDTH, WIDTH, dtype)
            specs.append(ArgSpec(f"{name}.taps", (TAPS, WIDTH), dtype, f"normal:{TAPS**-0.5:g}"))
            for part in ("recurrence", "enter"):
                specs += dense_arguments(f"{name}.{part}", WIDTH, WIDTH, dtype)
            # The decay a = sigmoid(Lambda) is to begin between 0.9 and 0.999 (section 2.4).
            specs.append(ArgSpec(f"{name}.decay", (WIDTH,), dtype, "uniform:2.2:6.9"))
            specs += linear_arguments(f"{name}.output", WIDTH, WIDTH, dtype, residual)
            states.append(ArgSpec(f"{name}.state", (1, WIDTH), dtype, "zeros", "state"))
            states.append(ArgSpec(f"{name}.last", (1, TAPS - 1, WIDTH), dtype, "zeros", "state"))
        specs += rms_norm_arguments(f"{name}.norm2", WIDTH, dtype)
        specs += linear_arguments(f"{name}.up", WIDTH, INNER, dtype)
        specs += linear_arguments(f"{name}.down", INNER, WIDTH, dtype, residual)
    return specs + rms_norm_arguments("norm", WIDTH, dtype), states


def _recurrent(w: Weights, name: str, y: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    """A recurrent layer, and its state afterwards."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import dense, gelu_tanh, linear

    gate = gelu_tanh(linear(w, f"{name}.gate", y))
    inputs = jnp.concatenate([w[f"{name}.last"], linear(w, f"{name}.input", y)], axis=1)
    with jax.named_scope(f"{name}.conv"):
        count = y.shape[1]
        taps = (inputs[:, i : i + count] * w[f"{name}.taps"][i] for i in range(TAPS))
        x = cast("jax.Array", sum(taps))
    strength = jax.nn.sigmoid(dense(w, f"{name}.recurrence", x))
    decay = jnp.exp(-SHARPNESS * strength * jax.nn.softplus(-w[f"{name}.decay"]))
    enter = jnp.sqrt(1 - decay * decay) * jax.nn.sigmoid(dense(w, f"{name}.enter", x)) * x

    def one(state: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        state = at[0] * state + at[1]
        return state, state

    with jax.named_scope(f"{name}.scan"):
        if count == 1:
            state, _ = one(w[f"{name}.state"], (decay[:, 0], enter[:, 0]))
            passed = state[:, None]
        else:
            moved = (decay.transpose(1, 0, 2), enter.transpose(1, 0, 2))
            state, passed = jax.lax.scan(one, w[f"{name}.state"], moved)
            passed = passed.transpose(1, 0, 2)
    return linear(w, f"{name}.output", passed * gate), [state, inputs[:, count:]]


def _attend(w: Weights, name: str, y: jax.Array, position: Any) -> tuple[jax.Array, list[jax.Array]]:
    """A layer with attention, and its caches afterwards."""
    from opscope.models.layers import linear
    from opscope.models.rotary import rotate

    query, key, value = (
        split_heads(linear(w, f"{name}.{part}", y), count)
        for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS))
    )
    query, key = (rotate(part, first=position) for part in (query, key))
    attended, written = cached_attention(w, name, query, key, value, position)
    return linear(w, f"{name}.o", attended), written


def _decoder(dtype: str) -> Decoder:
    import jax

    from opscope.models.layers import gelu_tanh, linear, rms_norm

    def forward(w: Weights, ids: jax.Array, position: Any) -> tuple[jax.Array, list[jax.Array]]:
        after: list[jax.Array] = []
        x = w["embedding"][ids]
        for name in NAMES:
            y = rms_norm(w, f"{name}.norm1", x, EPSILON)
            mixed, states = _attend(w, name, y, position) if name in ATTENDING else _recurrent(w, name, y)
            after += states
            x = x + mixed
            y = rms_norm(w, f"{name}.norm2", x, EPSILON)
            x = x + linear(w, f"{name}.down", gelu_tanh(linear(w, f"{name}.up", y)))
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T, after

    specs, states = _arguments(dtype)
    return Decoder(specs, states, VOCABULARY, forward)


@model(name="hybrid_prefill", family="decoder", size="reduced", trainable=False)
def build_prefill(dtype: str) -> Built:
    """A prompt into empty states; returns logits (1, 32, VOCABULARY) and the states."""
    return _decoder(dtype).prefill()


@model(name="hybrid_decode", family="decoder", size="reduced", trainable=False)
def build_decode(dtype: str) -> Built:
    """One token; returns logits (1, 1, VOCABULARY) and the states."""
    return _decoder(dtype).decode()
