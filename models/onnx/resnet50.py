"""ResNet-50 (He et al. 2015) as an ONNX graph: NCHW, 224x224, batch norms not folded, 25,557,032 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""(blocks, width) of each stage; a block's output is 4 * width."""
EXPANSION = 4


@model(name="resnet50_onnx", family="cnn", framework="onnx", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """The classifier of one image; returns logits, (1, 1000)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("resnet50", dtype)
    x = g.input("image", (1, 3, 224, 224))
    x = g.op("Relu", _conv_bn(g, "conv1", x, 3, 64, 7, stride=2))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="maxpool")
    channels = 64
    for stage, (count, width) in enumerate(STAGES, 1):
        for i in range(count):
            x = _block(g, f"layer{stage}.{i}", x, channels, width, 2 if i == 0 and stage > 1 else 1)
            channels = width * EXPANSION
    x = g.op("Flatten", g.op("GlobalAveragePool", x, name="avgpool"), axis=1)
    weight = g.weight("fc.weight", (1000, channels), "normal:0.022")
    return g.finish(g.op("Gemm", x, weight, g.weight("fc.bias", (1000,), "normal:0.02"), name="fc", transB=1))


def _conv_bn(
    g: Graph, name: str, x: str, inputs: int, outputs: int, size: int, stride: int = 1, gain: float = 1
) -> str:
    pad = [(size - 1) // 2] * 4
    x = g.conv(name, x, (outputs, inputs, size, size), bias=False, strides=[stride] * 2, pads=pad)
    return g.batch_norm(f"{name}.bn", x, outputs, gain)


def _block(g: Graph, name: str, x: str, channels: int, width: int, stride: int) -> str:
    """A bottleneck; the small gain on what is added keeps the sum's variance of order one."""
    y = g.op("Relu", _conv_bn(g, f"{name}.conv1", x, channels, width, 1))
    y = g.op("Relu", _conv_bn(g, f"{name}.conv2", y, width, width, 3, stride))
    y = _conv_bn(g, f"{name}.conv3", y, width, width * EXPANSION, 1, gain=0.2)
    if channels != width * EXPANSION:
        x = _conv_bn(g, f"{name}.downsample", x, channels, width * EXPANSION, 1, stride)
    return g.op("Relu", g.op("Add", y, x, name=f"{name}.add"))
