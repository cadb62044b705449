"""MobileNetV1 0.25 (Howard et al. 2017) for visual wake words, as MLPerf Tiny has it, a TFLite file in float32.

96x96 images, two classes; batch norms are folded, as the converter does.
"""

from __future__ import annotations

import math
from typing import Any

from opscope.models.registry import model

BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
"""(channels, stride) of the separable blocks."""


@model(name="mobilenet_v1_tflite", family="cnn", framework="tflite", trainable=False)
def build(dtype: str) -> bytes:
    """The bytes of the file; the result are the chances of both classes, (1, 2). Only float32 is there."""
    import tensorflow as tf

    from opscope.models.tflite.convert import convert, weight

    def forward(x: Any) -> Any:
        count = 0

        def conv(x: Any, outputs: int, size: int, stride: int) -> Any:
            nonlocal count
            count += 2
            inputs = int(x.shape[-1])
            distribution = f"normal:{math.sqrt(2 / (size * size * (inputs if outputs else 1))):.6g}"
            if outputs:
                y = tf.nn.conv2d(x, weight((size, size, inputs, outputs), distribution, count), stride, "SAME")
            else:
                y = tf.nn.depthwise_conv2d(
                    x, weight((size, size, inputs, 1), distribution, count), (1, stride, stride, 1), "SAME"
                )
            return tf.nn.relu6(y + weight((outputs or inputs,), "normal:0.1", count + 1))

        x = conv(x, 8, 3, 2)
        for channels, stride in BLOCKS:
            x = conv(conv(x, 0, 3, stride), channels, 1, 1)
        x = tf.reduce_mean(x, (1, 2))
        return tf.nn.softmax(tf.matmul(x, weight((256, 2), "normal:0.1", 1)) + weight((2,), "normal:0.1", 0))

    return convert(forward, (1, 96, 96, 3))
