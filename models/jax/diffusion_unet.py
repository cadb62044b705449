"""A denoising U-Net (Ho et al. 2020) at 32x32, with two resolutions instead of four and 64 channels instead of 128."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

SIDE, CHANNELS, GROUPS, TIME = 32, 64, 16, 128
EPSILON = 1e-5
BLOCKS = {"down": (CHANNELS, CHANNELS), "middle": (2 * CHANNELS, 2 * CHANNELS), "up": (2 * CHANNELS, CHANNELS)}
"""Block -> its channels in and out."""


def arguments(dtype: str) -> list[ArgSpec]:
    """Weights, then the noisy image and its step."""
    from opscope.models.layers import dense_arguments, layer_norm_arguments

    def conv(name: str, size: int, inputs: int, outputs: int) -> list[ArgSpec]:
        distribution = f"normal:{1 / math.sqrt(size * size * inputs):.6g}"
        shape = (size, size, inputs, outputs)
        return [
            ArgSpec(f"{name}.weight", shape, dtype, distribution),
            ArgSpec(f"{name}.bias", (outputs,), dtype, "normal:0.02"),
        ]

    specs = dense_arguments("time1", CHANNELS, TIME, dtype) + dense_arguments("time2", TIME, TIME, dtype)
    specs += conv("enter", 3, 3, CHANNELS)
    for name, (inputs, outputs) in BLOCKS.items():
        specs += layer_norm_arguments(f"{name}.norm1", inputs, dtype) + conv(f"{name}.conv1", 3, inputs, outputs)
        specs += dense_arguments(f"{name}.time", TIME, outputs, dtype)
        specs += layer_norm_arguments(f"{name}.norm2", outputs, dtype) + conv(f"{name}.conv2", 3, outputs, outputs)
        specs += conv(f"{name}.shortcut", 1, inputs, outputs) if inputs != outputs else []
    specs += conv("halve", 3, CHANNELS, 2 * CHANNELS) + conv("double", 2, 2 * CHANNELS, CHANNELS)
    specs += dense_arguments("attention.qkv", 2 * CHANNELS, 6 * CHANNELS, dtype)
    specs += dense_arguments("attention.projection", 2 * CHANNELS, 2 * CHANNELS, dtype)
    specs += layer_norm_arguments("leave.norm", CHANNELS, dtype) + conv("leave", 3, CHANNELS, 3)
    specs.append(ArgSpec("image", (1, SIDE, SIDE, 3), dtype, "normal:1", "input"))
    specs.append(ArgSpec("step", (1,), "int32", "int:0:1000", "input"))
    return specs


@model(name="diffusion_unet", family="diffusion", size="reduced")
def build(dtype: str) -> Built:
    """One denoising step; returns the noise of the image, (1, SIDE, SIDE, 3)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    from opscope.models.layers import attention, dense

    layout = ("NHWC", "HWIO", "NHWC")

    def conv(w: Mapping[str, Any], name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        weight = w[f"{name}.weight"]
        side = weight.shape[0] // 2
        with jax.named_scope(name):
            pads = ((side, side), (side, side))
            y = lax.conv_general_dilated(x, weight, (stride, stride), pads, dimension_numbers=layout)
            return y + w[f"{name}.bias"]

    def norm(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        """Group normalisation (Wu and He 2018)."""
        with jax.named_scope(name):
            y = x.reshape(*x.shape[:3], GROUPS, -1)
            y = y - jnp.mean(y, axis=(1, 2, 4), keepdims=True)
            y = y * lax.rsqrt(jnp.mean(y * y, axis=(1, 2, 4), keepdims=True) + EPSILON)
            return y.reshape(x.shape) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def block(w: Mapping[str, Any], name: str, x: jax.Array, time: jax.Array) -> jax.Array:
        y = conv(w, f"{name}.conv1", jax.nn.silu(norm(w, f"{name}.norm1", x)))
        y = y + dense(w, f"{name}.time", time)[:, None, None]
        y = conv(w, f"{name}.conv2", jax.nn.silu(norm(w, f"{name}.norm2", y)))
        return y + (conv(w, f"{name}.shortcut", x) if f"{name}.shortcut.weight" in w else x)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        with jax.named_scope("time"):
            places = jnp.arange(CHANNELS // 2, dtype=jnp.float32)
            angles = w["step"].astype(jnp.float32)[:, None] * jnp.exp(places * (-math.log(10000.0) / (CHANNELS // 2)))
            time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1).astype(w["image"].dtype)
        time = jax.nn.silu(dense(w, "time2", jax.nn.silu(dense(w, "time1", time))))
        wide = block(w, "down", conv(w, "enter", w["image"]), time)
        x = block(w, "middle", conv(w, "halve", wide, 2), time)
        tokens = x.reshape(1, -1, 2 * CHANNELS)
        q, k, v = jnp.split(dense(w, "attention.qkv", tokens), 3, axis=-1)
        tokens = tokens + dense(w, "attention.projection", attention(q, k, v, 4, None))
        with jax.named_scope("double"):
            x = lax.conv_transpose(
                tokens.reshape(x.shape), w["double.weight"], (2, 2), "VALID", dimension_numbers=layout
            )
            x = x + w["double.bias"]
        x = block(w, "up", jnp.concatenate([x, wide], axis=-1), time)
        return conv(w, "leave", jax.nn.silu(norm(w, "leave.norm", x)))

    return Built(forward, tuple(arguments(dtype)))
