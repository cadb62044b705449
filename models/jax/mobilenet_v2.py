"""MobileNetV2 (Sandler et al. 2018) at 224x224, batch 1, inference, depthwise convolutions: 3,504,872 parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""(expansion, channels, blocks, stride of the first): table 2 of the paper."""
FIRST, LAST, CLASSES = 32, 1280, 1000
EPSILON = 1e-5


def _blocks() -> Iterator[tuple[str, int, int, int, int]]:
    """(name, input channels, expanded channels, output channels, stride) of the 17 blocks."""
    inputs = FIRST
    for expansion, outputs, count, stride in STAGES:
        for i in range(count):
            yield f"block{outputs}.{i}", inputs, inputs * expansion, outputs, stride if i == 0 else 1
            inputs = outputs


def _conv_bn(name: str, size: int, inputs: int, outputs: int, dtype: str, power: float = 2.0) -> list[ArgSpec]:
    """Arguments of a convolution and its batch norm; `power` 2 keeps the variance where a ReLU follows."""
    distribution = f"normal:{math.sqrt(power / (size * size * inputs)):.6g}"
    return [
        ArgSpec(f"{name}.weight", (size, size, inputs, outputs), dtype, distribution),
        ArgSpec(f"{name}.bn.scale", (outputs,), dtype, "normal:1:0.1"),
        ArgSpec(f"{name}.bn.offset", (outputs,), dtype, "normal:0.1"),
        ArgSpec(f"{name}.bn.mean", (outputs,), dtype, "normal:0.1", "state"),
        ArgSpec(f"{name}.bn.variance", (outputs,), dtype, "uniform:0.5:1.5", "state"),
    ]


def arguments(dtype: str) -> list[ArgSpec]:
    """Weights in the order of the forward pass, then the image."""
    specs = _conv_bn("first", 3, 3, FIRST, dtype)
    for name, inputs, inner, outputs, _ in _blocks():
        specs += _conv_bn(f"{name}.expand", 1, inputs, inner, dtype) if inner != inputs else []
        specs += _conv_bn(f"{name}.depthwise", 3, 1, inner, dtype)
        # The sums over shortcuts grow: what a block adds is kept small.
        specs += _conv_bn(f"{name}.project", 1, inner, outputs, dtype, 1.0)
    specs += _conv_bn("last", 1, STAGES[-1][1], LAST, dtype)
    specs.append(ArgSpec("classes.weight", (LAST, CLASSES), dtype, f"normal:{2 / math.sqrt(LAST):.6g}"))
    specs.append(ArgSpec("classes.bias", (CLASSES,), dtype, "normal:0.02"))
    specs.append(ArgSpec("image", (1, 224, 224, 3), dtype, "normal:1", "input"))
    return specs


@model(name="mobilenet_v2", family="cnn")
def build(dtype: str) -> Built:
    """The classifier of one image, (1, 224, 224, 3); returns logits, (1, 1000)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def conv_bn(w: Mapping[str, Any], name: str, x: jax.Array, stride: int = 1, groups: int = 1) -> jax.Array:
        weight = w[f"{name}.weight"]
        side = weight.shape[0] // 2
        with jax.named_scope(name):
            x = lax.conv_general_dilated(
                x,
                weight,
                (stride, stride),
                ((side, side), (side, side)),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )
        with jax.named_scope(f"{name}.bn"):
            factor = w[f"{name}.bn.scale"] * lax.rsqrt(w[f"{name}.bn.variance"] + EPSILON)
            return (x - w[f"{name}.bn.mean"]) * factor + w[f"{name}.bn.offset"]

    def relu6(x: jax.Array) -> jax.Array:
        return jnp.minimum(jnp.maximum(x, 0), 6)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = relu6(conv_bn(w, "first", w["image"], 2))
        for name, inputs, inner, outputs, stride in _blocks():
            y = relu6(conv_bn(w, f"{name}.expand", x)) if inner != inputs else x
            y = relu6(conv_bn(w, f"{name}.depthwise", y, stride, inner))
            y = conv_bn(w, f"{name}.project", y)
            x = x + y if stride == 1 and inputs == outputs else y
        x = relu6(conv_bn(w, "last", x))
        with jax.named_scope("avgpool"):
            x = jnp.mean(x, axis=(1, 2))
        with jax.named_scope("classes"):
            return x @ w["classes.weight"] + w["classes.bias"]

    return Built(forward, tuple(arguments(dtype)))
