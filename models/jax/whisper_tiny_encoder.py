"""Whisper tiny's audio encoder (Radford et al. 2022) on 4 s of audio instead of 30 s: 8,208,384 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

FRAMES, MELS, POSITIONS = 400, 80, 1500
WIDTH, LAYERS, HEADS = 384, 4, 6
EPSILON = 1e-5


@model(name="whisper_tiny_encoder", family="audio", size="reduced")
def build(dtype: str) -> Built:
    """A log-mel spectrogram, (1, FRAMES, MELS); returns its features, (1, FRAMES / 2, WIDTH)."""
    import jax
    from jax import lax

    from opscope.models.layers import (
        attention,
        dense,
        dense_arguments,
        gelu_exact,
        layer_norm,
        layer_norm_arguments,
        linear,
        linear_arguments,
    )

    residual = 1 / math.sqrt(2 * LAYERS)
    specs = []
    for name, inputs in (("conv1", MELS), ("conv2", WIDTH)):
        distribution = f"normal:{math.sqrt(2 / (3 * inputs)):.6g}"
        specs.append(ArgSpec(f"{name}.weight", (3, inputs, WIDTH), dtype, distribution))
        specs.append(ArgSpec(f"{name}.bias", (WIDTH,), dtype, "normal:0.02"))
    specs.append(ArgSpec("positions", (POSITIONS, WIDTH), dtype, "normal:0.5"))
    for i in range(LAYERS):
        specs += layer_norm_arguments(f"layer{i}.norm1", WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.q", WIDTH, WIDTH, dtype)
        # As published: keys have no bias.
        specs += linear_arguments(f"layer{i}.k", WIDTH, WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.v", WIDTH, WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.o", WIDTH, WIDTH, dtype, residual)
        specs += layer_norm_arguments(f"layer{i}.norm2", WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.up", WIDTH, 4 * WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.down", 4 * WIDTH, WIDTH, dtype, residual)
    specs += layer_norm_arguments("norm", WIDTH, dtype)
    specs.append(ArgSpec("spectrogram", (1, FRAMES, MELS), dtype, "normal:1", "input"))

    def conv(w: Mapping[str, Any], name: str, x: jax.Array, stride: int) -> jax.Array:
        with jax.named_scope(name):
            layout = ("NWC", "WIO", "NWC")
            y = lax.conv_general_dilated(x, w[f"{name}.weight"], (stride,), ((1, 1),), dimension_numbers=layout)
            return gelu_exact(y + w[f"{name}.bias"])

    def block(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        y = layer_norm(w, f"{name}.norm1", x, EPSILON)
        q, k, v = dense(w, f"{name}.q", y), linear(w, f"{name}.k", y), dense(w, f"{name}.v", y)
        x = x + dense(w, f"{name}.o", attention(q, k, v, HEADS, None))
        inner = gelu_exact(dense(w, f"{name}.up", layer_norm(w, f"{name}.norm2", x, EPSILON)))
        return x + dense(w, f"{name}.down", inner)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = conv(w, "conv2", conv(w, "conv1", w["spectrogram"], 1), 2)
        x = x + w["positions"][: FRAMES // 2]
        for i in range(LAYERS):
            x = block(w, f"layer{i}", x)
        return layer_norm(w, "norm", x, EPSILON)

    return Built(forward, tuple(specs))
