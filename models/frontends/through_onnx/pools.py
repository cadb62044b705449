"""ONNX's pools in the forms that torch-mlir refuses or lowers wrongly: one slice for each place in a window."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opscope.models.frontends.through_onnx.writer import Writer

MOST = 128
"""Places in a window up to which a pool is written out."""


@dataclass(frozen=True)
class _Axis:
    """How windows lie along one axis."""

    length: int
    kernel: int
    stride: int
    dilation: int
    before: int
    """Padding before the first element, and after the last."""
    after: int
    windows: int

    @property
    def missing(self) -> int:
        """Places behind the last element that some window reads."""
        return max(
            0, (self.windows - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 - self.before - self.length
        )

    def counts(self, padding: bool) -> np.ndarray:
        """How many places of each window count: those of elements, with `padding` those of the padding too."""
        places = np.arange(self.windows)[:, None] * self.stride + np.arange(self.kernel) * self.dilation - self.before
        first, end = (-self.before, self.length + self.after) if padding else (0, self.length)
        return ((places >= first) & (places < end)).sum(1)


def max_pool(write: Writer) -> None:
    """The largest of each window; with the places of these, or of whole windows side by side, the node stays."""
    node, element = write.attributes(), write.element(0)
    if len(write.node.output) > 1:
        return
    if element in (TensorProto.UINT8, TensorProto.INT8) and math.prod(node["kernel_shape"]) <= MOST:
        wide = write.op("Cast", write.input(0), to=TensorProto.FLOAT)
        _pooled(write, _axes(write, node), "Max", wide, -np.inf, narrow=element)
    elif not (node.get("ceil_mode", 0) or set(node.get("dilations", [])) - {1}):
        return
    elif element in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16):
        _pooled(write, _axes(write, node), "Max", write.input(0), -np.inf)


def average_pool(write: Writer) -> None:
    """The mean of each window, of the elements alone or of the padding too; windows without padding stay."""
    node = write.attributes()
    same = str(node.get("auto_pad", "")).startswith("SAME")
    deep = len(node["kernel_shape"]) > 2
    if deep or same or node.get("ceil_mode", 0) or set(node.get("dilations", [])) - {1}:
        axes = _axes(write, node)
        counts = [axis.counts(bool(node.get("count_include_pad", 0))) for axis in axes]
        size = math.prod(np.ix_(*counts), start=np.ones(()))
        _pooled(write, axes, "Add", write.input(0), 0.0, size)


def lp_pool(write: Writer) -> None:
    """The p-th root of the sum of |x|^p over each window."""
    node = write.attributes()
    p = int(node.get("p", 2))
    power, root = (write.constant(np.asarray(value), write.element(0)) for value in (p, 1 / p))
    _pooled(write, _axes(write, node), "Add", write.op("Pow", write.op("Abs", write.input(0)), power), 0.0, root=root)


def _axes(write: Writer, node: dict[str, Any]) -> list[_Axis]:
    """The windows of a pool by the attributes of its node."""
    kernel, same = node["kernel_shape"], str(node.get("auto_pad", ""))
    rank = len(kernel)
    strides, dilations = (node.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = node.get("pads") or [0] * (2 * rank)
    axes = []
    for a, length in enumerate(write.shape(0)[2:]):
        reach = (kernel[a] - 1) * dilations[a] + 1
        before, after = pads[a], pads[a + rank]
        if same.startswith("SAME"):
            windows = -(-length // strides[a])
            whole = max(0, (windows - 1) * strides[a] + reach - length)
            before = whole // 2 if same == "SAME_UPPER" else whole - whole // 2
            after = whole - before
        else:
            steps = (length + before + after - reach) / strides[a]
            windows = (math.ceil(steps) if node.get("ceil_mode", 0) else math.floor(steps)) + 1
            windows -= (windows - 1) * strides[a] >= length + before  # one that begins behind the last element
        axes.append(_Axis(length, kernel[a], strides[a], dilations[a], before, after, windows))
    return axes


def _pooled(
    write: Writer,
    axes: list[_Axis],
    kind: str,
    x: str,
    rest: float,
    size: np.ndarray | None = None,
    root: str = "",
    narrow: int = 0,
) -> None:
    """What `kind` makes of each window of `x`, filled up with `rest`; over `size`, to the power `root`.

    With `narrow`, `x` holds the node's integers of this type as float32.
    """
    if math.prod(axis.kernel for axis in axes) > MOST:
        return
    if any(axis.before or axis.missing for axis in axes):
        pads = write.ints([0, 0, *(axis.before for axis in axes), 0, 0, *(axis.missing for axis in axes)])
        x = write.op(
            "Pad", x, pads, write.constant(np.asarray(rest), TensorProto.FLOAT if narrow else write.element(0))
        )
    along, steps = write.ints(range(2, 2 + len(axes))), write.ints([axis.stride for axis in axes])
    result = ""
    for places in itertools.product(*(range(axis.kernel) for axis in axes)):
        starts = [place * axis.dilation for place, axis in zip(places, axes, strict=True)]
        ends = [start + (axis.windows - 1) * axis.stride + 1 for start, axis in zip(starts, axes, strict=True)]
        part = write.op("Slice", x, write.ints(starts), write.ints(ends), along, steps)
        result = write.op(kind, result, part) if result else part
    if size is not None:
        result = write.op("Div", result, write.constant(size, write.element(0)))
    if narrow:
        result = write.op("Cast", result, to=narrow)
    write.finish(0, write.op("Pow", result, root) if root else result)
