"""Semantic segmentation after DeepLabv3 (Chen et al. 2017) as a frozen GraphDef: atrous pyramid, bilinear resize.

Reduced: 97x97 pixels, a trunk of 16 to 64 channels, 8 classes; the weights, drawn with seed 0, lie in the graph.
"""

from __future__ import annotations

import math
from typing import Any

from opscope.models.registry import model

SIDE, CLASSES = 97, 8
RATES = (1, 2, 4)


@model(name="deeplab_graphdef", family="segmentation", framework="graphdef", size="reduced", trainable=False)
def build(dtype: str) -> bytes:
    """The bytes of the graph; results are the class of each pixel, (1, 97, 97), and the scores, (1, 97, 97, 8)."""
    import tensorflow as tf

    from opscope.models.seeding import draw

    count = 0

    def weight(shape: tuple[int, ...], distribution: str, name: str) -> Any:
        nonlocal count
        count += 1
        return tf.constant(draw(distribution, shape, dtype, 0, count), name=name)

    def conv(x: Any, outputs: int, size: int, name: str, stride: int = 1, rate: int = 1) -> Any:
        inputs = int(x.shape[-1])
        kernel = weight(
            (size, size, inputs, outputs), f"normal:{math.sqrt(2 / (size * size * inputs)):.6g}", f"{name}/kernel"
        )
        x = tf.nn.conv2d(x, kernel, stride, "SAME", dilations=rate, name=name)
        return tf.nn.relu(tf.nn.bias_add(x, weight((outputs,), "normal:0.1", f"{name}/bias")), name=f"{name}/relu")

    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(dtype, (1, SIDE, SIDE, 3), name="image")
        x = conv(image, 16, 3, "stem", 2)
        x = conv(conv(x, 32, 3, "trunk1", 2), 64, 3, "trunk2", 2)
        parts = [conv(x, 32, 3, f"pyramid{rate}", rate=rate) for rate in RATES]
        pooled = conv(tf.reduce_mean(x, (1, 2), keepdims=True), 32, 1, "pooled")
        parts.append(tf.tile(pooled, (1, int(x.shape[1]), int(x.shape[2]), 1)))
        x = conv(tf.concat(parts, -1), 64, 1, "joined")
        kernel = weight((1, 1, 64, CLASSES), "normal:0.12", "classes/kernel")
        scores = tf.cast(tf.nn.conv2d(x, kernel, 1, "SAME", name="classes"), tf.float32)
        scores = tf.compat.v1.image.resize_bilinear(scores, (SIDE, SIDE), align_corners=True, name="resized")
        tf.argmax(scores, -1, output_type=tf.int32, name="mask")
        tf.nn.softmax(scores, name="chances")
    return graph.as_graph_def().SerializeToString()
