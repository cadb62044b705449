"""MobileNetV2 (Sandler et al. 2018) in TensorFlow's ops, 224x224, one image, 3,504,872 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""(expansion, channels, repeats, stride of the first): table 2 of the paper."""
HEAD, CLASSES = 1280, 1000


def _layers() -> list[tuple[str, int, int, int, int, bool]]:
    """(name, window, inputs, outputs, stride, depthwise) of every convolution, in order."""
    layers, channels = [("stem", 3, 3, 32, 2, False)], 32
    for i, (expansion, width, repeats, stride) in enumerate(BLOCKS):
        for k in range(repeats):
            name, inner = f"block{i}.{k}", channels * expansion
            if expansion > 1:
                layers.append((f"{name}.expand", 1, channels, inner, 1, False))
            layers.append((f"{name}.depthwise", 3, inner, inner, stride if k == 0 else 1, True))
            layers.append((f"{name}.project", 1, inner, width, 1, False))
            channels = width
    return [*layers, ("head", 1, channels, HEAD, 1, False)]


def _arguments(dtype: str) -> list[ArgSpec]:
    specs = []
    for name, size, inputs, outputs, _, depthwise in _layers():
        shape = (size, size, inputs, 1 if depthwise else outputs)
        fan = size * size * (1 if depthwise else inputs)
        gain = 0.5 if name.endswith("project") else 1
        specs += [
            ArgSpec(f"{name}.weight", shape, dtype, f"normal:{math.sqrt(2 / fan):.6g}"),
            ArgSpec(f"{name}.bn.scale", (outputs,), dtype, f"normal:{gain}:0.1"),
            ArgSpec(f"{name}.bn.offset", (outputs,), dtype, "normal:0.1"),
            ArgSpec(f"{name}.bn.mean", (outputs,), dtype, "normal:0.1", "state"),
            ArgSpec(f"{name}.bn.variance", (outputs,), dtype, "uniform:0.5:1.5", "state"),
        ]
    return [
        *specs,
        ArgSpec("classes.weight", (HEAD, CLASSES), dtype, f"normal:{1 / math.sqrt(HEAD):.6g}"),
        ArgSpec("classes.bias", (CLASSES,), dtype, "normal:0.02"),
        ArgSpec("image", (1, 224, 224, 3), dtype, "normal:1", "input"),
    ]


@model(name="mobilenet_v2_tf", family="cnn", framework="tf", trainable=False)
def build(dtype: str) -> Built:
    """The classifier of one NHWC image; returns logits, (1, 1000)."""
    import tensorflow as tf

    def conv_bn(w: Mapping[str, Any], x: Any, name: str, stride: int, depthwise: bool) -> Any:
        with tf.name_scope(name):
            if depthwise:
                x = tf.nn.depthwise_conv2d(x, w[f"{name}.weight"], (1, stride, stride, 1), "SAME")
            else:
                x = tf.nn.conv2d(x, w[f"{name}.weight"], stride, "SAME")
            mean, variance, offset, scale = (w[f"{name}.bn.{p}"] for p in ("mean", "variance", "offset", "scale"))
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)

    def forward(w: Mapping[str, Any]) -> Any:
        x, shortcut = w["image"], None
        for name, _, _, _, stride, depthwise in _layers():
            first = name.endswith("expand") or name == "block0.0.depthwise"
            shortcut = x if first else shortcut
            x = conv_bn(w, x, name, stride, depthwise)
            if not name.endswith("project"):
                x = tf.nn.relu6(x)
            elif shortcut is not None and shortcut.shape == x.shape:
                x = x + shortcut
        x = tf.reduce_mean(x, (1, 2))
        return tf.linalg.matmul(x, w["classes.weight"]) + w["classes.bias"]

    return Built(forward, tuple(_arguments(dtype)))
