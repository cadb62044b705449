"""ResNet-8 for CIFAR-10 (MLPerf Tiny) in int8, in QDQ form as ONNX Runtime's static quantisation writes it.

Each convolution reads dequantised activations, weights (per output channel) and a bias of 32 bits, and is quantised
again; so are the sums of the residual blocks. Weights are drawn by a seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    import numpy as np

    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

STAGES = ((16, 1), (32, 2), (64, 2))
"""(channels, stride) of each block."""
CLASSES = 10
SCALE, ZERO = 0.04, -4
"""Scale and zero point of activations: from -4.96 to 5.24."""
RELU_SCALE, RELU_ZERO = 0.02, -128
"""Those of activations that a quantisation clamps at zero in place of a Relu."""


@model(name="resnet8_qdq_onnx", family="cnn", framework="onnx", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """The classifier of one image; returns the chances of the classes, (1, 10)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("resnet8_qdq", dtype, opset=21)
    x = _quantised(g, "input", g.input("image", (1, 3, 32, 32)), relu=False)
    x = _conv(g, "conv1", x, 3, 16, 3, relu=True)
    channels = 16
    for stage, (width, stride) in enumerate(STAGES, 1):
        y = _conv(g, f"block{stage}.conv1", x, channels, width, 3, stride, relu=True)
        y = _conv(g, f"block{stage}.conv2", y, width, width, 3, gain=0.5)
        if channels != width:
            x = _conv(g, f"block{stage}.downsample", x, channels, width, 1, stride, gain=1.0)
        x = _quantised(g, f"block{stage}", g.op("Add", x, y, name=f"block{stage}.add"), relu=True)
        channels = width
    x = _quantised(g, "avgpool", g.op("GlobalAveragePool", x, name="avgpool"), relu=True)
    weight, _ = _weight(g, "fc", (CLASSES, channels), math.sqrt(2 / channels))
    x = g.op("Gemm", g.op("Flatten", x, axis=1), weight, name="fc", transB=1)
    return g.finish(g.op("Softmax", _quantised(g, "logits", x, relu=False), axis=-1))


def _quantised(g: Graph, name: str, x: str, relu: bool) -> str:
    """`x` quantised and dequantised; with `relu` the range begins at zero."""
    scale, zero = (RELU_SCALE, RELU_ZERO) if relu else (SCALE, ZERO)
    numbers = g.constant(scale, "float32"), g.constant(zero, "int8")
    stored = g.op("QuantizeLinear", x, *numbers, name=f"{name}.quantize")
    return g.op("DequantizeLinear", stored, *numbers, name=f"{name}.dequantize")


def _conv(
    g: Graph,
    name: str,
    x: str,
    inputs: int,
    outputs: int,
    size: int,
    stride: int = 1,
    *,
    relu: bool = False,
    gain: float = 2.0,
) -> str:
    """A convolution of dequantised weights and bias, quantised again."""
    import numpy as np

    from opscope.models.seeding import draw

    weight, scales = _weight(g, name, (outputs, inputs, size, size), math.sqrt(gain / (inputs * size * size)))
    read = SCALE if name == "conv1" else RELU_SCALE
    steps = draw("normal:0.1", (outputs,), "float32", 0, len(name)) / (read * scales)
    bias = g.op(
        "DequantizeLinear",
        g.constant(np.rint(steps), "int32"),
        g.constant(read * scales, "float32"),
        name=f"{name}.bias",
        axis=0,
    )
    pads = [(size - 1) // 2] * 4
    y = g.op("Conv", x, weight, bias, name=name, kernel_shape=[size, size], strides=[stride] * 2, pads=pads)
    return _quantised(g, name, y, relu)


def _weight(g: Graph, name: str, shape: tuple[int, ...], deviation: float) -> tuple[str, np.ndarray]:
    """Dequantised weights, int8 without a zero point, and the scale of each output."""
    import numpy as np

    from opscope.models.seeding import draw

    values = draw(f"normal:{deviation:.6g}", shape, "float32", 0, sum(map(ord, name)))
    flat = np.abs(values).reshape(shape[0], -1).max(1)
    scales = (flat / 127).astype(np.float32)
    stored = np.rint(values / scales.reshape(-1, *[1] * (len(shape) - 1)))
    made = g.op(
        "DequantizeLinear", g.constant(stored, "int8"), g.constant(scales, "float32"), name=f"{name}.weight", axis=0
    )
    return made, scales
