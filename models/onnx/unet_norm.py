"""A U-Net with instance norms, as nnU-Net plans them (Isensee et al. 2018), as an ONNX graph.

Reduced: 2-D, 96x96, three levels of 16 to 64 channels, one case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

SIDE, CLASSES = 96, 4
WIDTHS = (16, 32, 64)


@model(name="unet_onnx", family="segmentation", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """Class of each pixel, (1, 96, 96), and the probabilities, (1, 4, 96, 96)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("unet", dtype)
    x, channels, skips = g.input("scan", (1, 1, SIDE, SIDE)), 1, []
    for i, width in enumerate(WIDTHS):
        x = _twice(g, f"down{i}", x, channels, width, 2 if i else 1)
        skips.append(x)
        channels = width
    for i in (1, 0):
        width = WIDTHS[i]
        weight = g.weight(f"up{i}.weight", (channels, width, 2, 2), f"normal:{channels**-0.5:.6g}")
        x = g.op("ConvTranspose", x, weight, name=f"up{i}", kernel_shape=[2, 2], strides=[2, 2])
        x = _twice(g, f"merge{i}", g.op("Concat", x, skips[i], axis=1), 2 * width, width, 1)
        channels = width
    chances = g.op("Softmax", g.conv("classes", x, (CLASSES, channels, 1, 1)), axis=1, name="softmax")
    return g.finish(g.op("ArgMax", chances, axis=1, keepdims=0, name="mask"), chances)


def _twice(g: Graph, name: str, x: str, inputs: int, outputs: int, stride: int) -> str:
    for k, (channels, step) in enumerate(((inputs, stride), (outputs, 1))):
        y = g.conv(f"{name}.{k}", x, (outputs, channels, 3, 3), strides=[step] * 2, pads=[1] * 4)
        scale = g.weight(f"{name}.{k}.norm.weight", (outputs,), "normal:1:0.1")
        offset = g.weight(f"{name}.{k}.norm.bias", (outputs,), "normal:0.1")
        y = g.op("InstanceNormalization", y, scale, offset, name=f"{name}.{k}.norm")
        x = g.op("LeakyRelu", y, alpha=0.01)
    return x
