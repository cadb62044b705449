"""Temporal convolutional network (Bai et al. 2018) for sequential MNIST.

8 levels of 25 channels, kernel 7, dilations 1 to 128; batch 1, weight normalisation folded into the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

LENGTH, CHANNELS, LEVELS, TAPS, CLASSES = 784, 25, 8, 7, 10


@model(name="tcn", family="time_series")
def build(dtype: str) -> Built:
    """One series of `LENGTH` values; returns the logits of its class, (1, CLASSES)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from opscope.models.layers import dense, dense_arguments

    def conv_arguments(name: str, taps: int, inputs: int) -> list[ArgSpec]:
        distribution = f"normal:{(1 / (taps * inputs)) ** 0.5:.6g}"
        return [
            ArgSpec(f"{name}.weight", (taps, inputs, CHANNELS), dtype, distribution),
            ArgSpec(f"{name}.bias", (CHANNELS,), dtype, "normal:0.1"),
        ]

    specs = []
    for i in range(LEVELS):
        inputs = CHANNELS if i else 1
        specs += conv_arguments(f"level{i}.conv1", TAPS, inputs)
        specs += conv_arguments(f"level{i}.conv2", TAPS, CHANNELS)
        specs += [] if i else conv_arguments("level0.shortcut", 1, 1)
    specs += dense_arguments("classes", CHANNELS, CLASSES, dtype)
    specs.append(ArgSpec("series", (1, LENGTH, 1), dtype, "normal:1", "input"))

    def conv(w: Mapping[str, Any], name: str, x: jax.Array, dilation: int) -> jax.Array:
        """Causal convolution: only the past is padded."""
        weight = w[f"{name}.weight"]
        with jax.named_scope(name):
            past = ((weight.shape[0] - 1) * dilation, 0)
            layout = ("NWC", "WIO", "NWC")
            y = lax.conv_general_dilated(x, weight, (1,), (past,), rhs_dilation=(dilation,), dimension_numbers=layout)
            return y + w[f"{name}.bias"]

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["series"]
        for i in range(LEVELS):
            y = jnp.maximum(conv(w, f"level{i}.conv1", x, 2**i), 0)
            y = jnp.maximum(conv(w, f"level{i}.conv2", y, 2**i), 0)
            x = jnp.maximum(y + (x if i else conv(w, "level0.shortcut", x, 1)), 0)
        return dense(w, "classes", x[:, -1])

    return Built(forward, tuple(specs))
