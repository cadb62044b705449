"""DS-CNN for keyword spotting (Zhang et al. 2017), as MLPerf Tiny has it, a TFLite file in int8.

49 frames of 10 coefficients, 12 words; weights and activations are integers, ranges measured on seeded inputs.
"""

from __future__ import annotations

import math
from typing import Any

from opscope.models.registry import model

CHANNELS, BLOCKS, WORDS = 64, 4, 12


@model(name="ds_cnn_int8_tflite", family="audio", framework="tflite", trainable=False)
def build(dtype: str) -> bytes:
    """The bytes of the file; the result are the chances of the words, (1, 12)."""
    import tensorflow as tf

    from opscope.models.tflite.convert import convert, weight

    def forward(x: Any) -> Any:
        distribution = f"normal:{math.sqrt(2 / 40):.6g}"
        x = tf.nn.conv2d(x, weight((10, 4, 1, CHANNELS), distribution, 0), 2, "SAME") + weight(
            (CHANNELS,), "normal:0.1", 1
        )
        x = tf.nn.relu(x)
        for i in range(BLOCKS):
            window = weight((3, 3, CHANNELS, 1), f"normal:{math.sqrt(2 / 9):.6g}", 4 * i + 2)
            x = tf.nn.depthwise_conv2d(x, window, (1, 1, 1, 1), "SAME") + weight((CHANNELS,), "normal:0.1", 4 * i + 3)
            mix = weight((1, 1, CHANNELS, CHANNELS), f"normal:{math.sqrt(2 / CHANNELS):.6g}", 4 * i + 4)
            x = tf.nn.conv2d(tf.nn.relu(x), mix, 1, "SAME") + weight((CHANNELS,), "normal:0.1", 4 * i + 5)
            x = tf.nn.relu(x)
        x = tf.reshape(tf.nn.avg_pool2d(x, (25, 5), 1, "VALID"), (1, CHANNELS))
        return tf.nn.softmax(
            tf.matmul(x, weight((CHANNELS, WORDS), "normal:0.25", 90)) + weight((WORDS,), "normal:0.1", 91)
        )

    return convert(forward, (1, 49, 10, 1), integers=True)
