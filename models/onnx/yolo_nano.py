"""A one-stage detector after YOLOv5/v8 (CSP blocks, SPPF, top-down path) as an ONNX graph.

Reduced: 160x160 images, nano widths, three levels, boxes as distributions over 16 bins decoded to offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

SIDE, CLASSES, BINS = 160, 80, 16
WIDTHS = (16, 32, 64, 128, 256)


@model(name="yolo_nano_onnx", family="detection", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """Boxes as four offsets per cell, (1, 4, 525), and class probabilities, (1, 80, 525)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("yolo_nano", dtype)
    x = _conv(g, "stem", g.input("image", (1, 3, SIDE, SIDE)), 3, WIDTHS[0], 3, 2)
    levels = []
    for i in range(1, 5):
        x = _conv(g, f"stage{i}.down", x, WIDTHS[i - 1], WIDTHS[i], 3, 2)
        x = _csp(g, f"stage{i}.csp", x, WIDTHS[i], WIDTHS[i])
        levels.append(x)
    small, middle, deep = levels[1], levels[2], _sppf(g, "sppf", levels[3], WIDTHS[4])
    middle = _csp(g, "up1", _joined(g, "up1", deep, middle), WIDTHS[4] + WIDTHS[3], WIDTHS[3])
    small = _csp(g, "up2", _joined(g, "up2", middle, small), WIDTHS[3] + WIDTHS[2], WIDTHS[2])
    heads = [_head(g, f"head{i}", y, w) for i, (y, w) in enumerate(zip((small, middle, deep), WIDTHS[2:], strict=True))]
    cells = g.op("Concat", *heads, axis=2, name="cells")
    box, scores = g.ops("Split", cells, g.constant([4 * BINS, CLASSES]), results=2, axis=1, name="box_and_class")
    bins = g.op("Transpose", g.reshape(box, (1, 4, BINS, -1)), perm=[0, 2, 1, 3])
    chances = g.op("Softmax", bins, axis=1, name="bins")
    ruler = g.constant([float(i) for i in range(BINS)], "float")
    offsets = g.op("Conv", chances, g.reshape(ruler, (1, BINS, 1, 1)), kernel_shape=[1, 1], name="expected_offset")
    return g.finish(g.reshape(offsets, (1, 4, -1)), g.op("Sigmoid", scores))


def _conv(g: Graph, name: str, x: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
    """Convolution, batch norm and SiLU."""
    pads = [size // 2] * 4
    y = g.conv(name, x, (outputs, inputs, size, size), bias=False, gain=1.7, strides=[stride] * 2, pads=pads)
    y = g.batch_norm(f"{name}.bn", y, outputs)
    return g.op("Mul", y, g.op("Sigmoid", y), name=f"{name}.silu")


def _csp(g: Graph, name: str, x: str, inputs: int, outputs: int) -> str:
    """Half of the channels goes through a bottleneck; both halves and the result are joined."""
    half = outputs // 2
    left, right = g.ops("Split", _conv(g, f"{name}.in", x, inputs, outputs, 1), results=2, axis=1, num_outputs=2)
    y = _conv(g, f"{name}.b", _conv(g, f"{name}.a", right, half, half, 3), half, half, 3)
    joined = g.op("Concat", left, right, g.op("Add", right, y), axis=1, name=f"{name}.concat")
    return _conv(g, f"{name}.out", joined, 3 * half, outputs, 1)


def _sppf(g: Graph, name: str, x: str, width: int) -> str:
    """Three poolings in a row, all joined."""
    parts = [_conv(g, f"{name}.in", x, width, width // 2, 1)]
    for _ in range(3):
        parts.append(g.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return _conv(g, f"{name}.out", g.op("Concat", *parts, axis=1), 2 * width, width, 1)


def _joined(g: Graph, name: str, deep: str, shallow: str) -> str:
    scales = g.constant([1.0, 1.0, 2.0, 2.0], "float32")
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g.op("Concat", g.op("Resize", deep, "", scales, name=f"{name}.upsample", **mode), shallow, axis=1)


def _head(g: Graph, name: str, x: str, width: int) -> str:
    y = _conv(g, f"{name}.conv", x, width, 64, 3)
    return g.reshape(g.conv(f"{name}.out", y, (4 * BINS + CLASSES, 64, 1, 1)), (1, 4 * BINS + CLASSES, -1))
