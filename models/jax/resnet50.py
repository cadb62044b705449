"""ResNet-50 (He et al. 2015) at 224x224, batch 1, inference; stride on the 3x3 convolution, 25,557,032 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""(blocks, width) of each stage; a block's output is 4 * width."""
EXPANSION = 4
CLASSES = 1000
EPSILON = 1e-5


def _conv_bn(name: str, size: int, inputs: int, outputs: int, dtype: str, gain: float = 1.0) -> list[ArgSpec]:
    """Arguments of a convolution without bias and its batch norm; He's scale keeps the variance through ReLU."""
    deviation = math.sqrt(2 / (size * size * inputs))
    return [
        ArgSpec(f"{name}.weight", (size, size, inputs, outputs), dtype, f"normal:{deviation:.6g}"),
        ArgSpec(f"{name}.bn.scale", (outputs,), dtype, f"normal:{gain:g}:0.1"),
        ArgSpec(f"{name}.bn.offset", (outputs,), dtype, "normal:0.1"),
        ArgSpec(f"{name}.bn.mean", (outputs,), dtype, "normal:0.1", "state"),
        ArgSpec(f"{name}.bn.variance", (outputs,), dtype, "uniform:0.5:1.5", "state"),
    ]


def _blocks() -> list[tuple[str, int, int, int]]:
    """(name, input channels, width, stride) of the 16 blocks."""
    blocks, channels = [], 64
    for stage, (count, width) in enumerate(STAGES, 1):
        for i in range(count):
            blocks.append((f"layer{stage}.{i}", channels, width, 2 if i == 0 and stage > 1 else 1))
            channels = width * EXPANSION
    return blocks


def arguments(dtype: str, batch: int) -> list[ArgSpec]:
    """Weights in the order of the forward pass, then the images."""
    specs = _conv_bn("conv1", 7, 3, 64, dtype)
    for name, channels, width, stride in _blocks():
        specs += _conv_bn(f"{name}.conv1", 1, channels, width, dtype)
        specs += _conv_bn(f"{name}.conv2", 3, width, width, dtype)
        # A small gain on what is added to the shortcut: the sum's variance stays of order one through all blocks.
        specs += _conv_bn(f"{name}.conv3", 1, width, width * EXPANSION, dtype, gain=0.2)
        if stride != 1 or channels != width * EXPANSION:
            specs += _conv_bn(f"{name}.downsample", 1, channels, width * EXPANSION, dtype)
    features = STAGES[-1][1] * EXPANSION
    specs.append(ArgSpec("fc.weight", (features, CLASSES), dtype, f"normal:{1 / math.sqrt(features):.6g}"))
    specs.append(ArgSpec("fc.bias", (CLASSES,), dtype, "normal:0.02"))
    specs.append(ArgSpec("image", (batch, 224, 224, 3), dtype, "normal:1", "input"))
    return specs


def resnet50(dtype: str, batch: int) -> Built:
    """The classifier of NHWC images; returns logits, (batch, 1000)."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    def conv_bn(w: Mapping[str, Any], name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        weight = w[f"{name}.weight"]
        pad = (weight.shape[0] - 1) // 2
        with jax.named_scope(name):
            y = lax.conv_general_dilated(
                x, weight, (stride, stride), [(pad, pad), (pad, pad)], dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            with jax.named_scope("bn"):
                factor = lax.rsqrt(w[f"{name}.bn.variance"] + EPSILON) * w[f"{name}.bn.scale"]
                return (y - w[f"{name}.bn.mean"]) * factor + w[f"{name}.bn.offset"]

    def block(w: Mapping[str, Any], name: str, x: jax.Array, stride: int) -> jax.Array:
        y = jnp.maximum(conv_bn(w, f"{name}.conv1", x), 0)
        y = jnp.maximum(conv_bn(w, f"{name}.conv2", y, stride), 0)
        y = conv_bn(w, f"{name}.conv3", y)
        shortcut = conv_bn(w, f"{name}.downsample", x, stride) if f"{name}.downsample.weight" in w else x
        return jnp.maximum(y + shortcut, 0)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = jnp.maximum(conv_bn(w, "conv1", w["image"], 2), 0)
        with jax.named_scope("maxpool"):
            # A NumPy scalar of x's own type: the start of the maximum must not widen a bfloat16 window, and JAX
            # differentiates a window whose start it knows.
            lowest = np.array(-np.inf, x.dtype)
            pads = ((0, 0), (1, 1), (1, 1), (0, 0))
            x = lax.reduce_window(x, lowest, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
        for name, _, _, stride in _blocks():
            x = block(w, name, x, stride)
        with jax.named_scope("avgpool"):
            x = jnp.mean(x, axis=(1, 2))
        with jax.named_scope("fc"):
            return x @ w["fc.weight"] + w["fc.bias"]

    return Built(forward, tuple(arguments(dtype, batch)))


@model(name="resnet50", family="cnn")
def build(dtype: str) -> Built:
    """The classifier of one image; returns logits, (1, 1000)."""
    return resnet50(dtype, batch=1)


@model(name="resnet50_batch2", family="cnn", shardings={"image": "data"})
def build_pair(dtype: str) -> Built:
    """The classifier of two images, one for each of two devices; returns logits, (2, 1000)."""
    return resnet50(dtype, batch=2)
