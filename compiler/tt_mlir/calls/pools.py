"""Reductions of windows of images, which tt-mlir gives as (1, 1, N H W, C), and normalisation of batches."""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.target.fused_params import NormParams
from opscope.compiler.target.program import Pool2dParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]


def _sides(padding: tuple[int, ...]) -> Sides:
    """Top, bottom, left, right of (height, width), or of (top, left, bottom, right), the order of pools."""
    if len(padding) == 2:
        return padding[0], padding[0], padding[1], padding[1]
    top, left, bottom, right = padding
    return top, bottom, left, right


def _out(size: int, low: int, high: int, window: int, stride: int, dilation: int, ceil: bool) -> tuple[int, int]:
    """How many windows there are, and the padding at the end with it: `ceil` adds some for one more window.

    That one has to begin before the padding at the end, as PyTorch has it.
    """
    free = size + low + high - (dilation * (window - 1) + 1)
    count = free // stride + 1
    if ceil and free % stride and count * stride < size + low:
        return count + 1, high + stride - free % stride
    return count, high


def _divisor(emit: Emit, window: Pair, padded: bool) -> float:
    attributes = emit.attributes
    counts = attributes.get("count_include_pad", True)
    divisor = attributes.get("divisor_override")
    if divisor is not None:
        return float(divisor)
    emit.only(counts or not padded, "expected padding to count in an average, got one that leaves it out")
    return float(window[0] * window[1])


@emits("max_pool2d", "avg_pool2d")
def pool2d(emit: Emit) -> None:
    """The largest, or the sum over a divisor, of each window."""
    attributes, (x,), (result,) = emit.attributes, emit.inputs, emit.results
    n, h, w, channels = (attributes[name] for name in ("batch_size", "input_height", "input_width", "channels"))
    window, stride, dilation, ceil = (
        attributes["kernel_size"],
        attributes["stride"],
        attributes["dilation"],
        attributes["ceil_mode"],
    )
    top, bottom, left, right = _sides(attributes["padding"])
    rows, below = _out(h, top, bottom, window[0], stride[0], dilation[0], ceil)
    columns, beside = _out(w, left, right, window[1], stride[1], dilation[1], ceil)
    more = (below, beside) != (bottom, right)
    padding = (top, below, left, beside)
    kernel = emit.name.removeprefix("ttnn.")
    divisor = 1.0
    if kernel == "avg_pool2d":
        divisor = _divisor(emit, window, any(padding))
        emit.only(not more or "divisor_override" in emit.op.properties, "expected whole windows, got a cut one")
    shape = (1, 1, n * rows * columns, channels)
    emit.only(emit.desc(result).shape == shape, f"expected a result of {shape}, got {emit.desc(result).shape}")
    image = emit.view(x, (n, h, w, channels))
    made = emit.tensor(replace(emit.desc(result), shape=(n, rows, columns, channels)))
    emit.call(kernel, [image], [made], Pool2dParams(window, stride, padding, dilation, divisor), emit.numerics())
    emit.onto(made, result)


@emits("batch_norm_inference")
def batch_norm_inference(emit: Emit) -> None:
    """By given statistics: x, mean, variance, and weight and offset or neither."""
    sizes = emit.attributes["operandSegmentSizes"]
    emit.only(sizes in ((1, 1, 1, 1, 1), (1, 1, 1, 0, 0)), f"expected weight and offset or neither, got {sizes}")
    params = NormParams(emit.attributes["epsilon"])
    emit.call("batch_norm_inference", emit.inputs, emit.results, params, emit.numerics())


@emits("batch_norm_training")
def batch_norm_training(emit: Emit) -> None:
    """By the batch's own statistics, which are results too: x, and weight and offset or neither."""
    attributes = emit.attributes
    sizes = attributes["operandSegmentSizes"]
    emit.only(sizes in ((1, 0, 0, 1, 1), (1, 0, 0, 0, 0)), f"expected no running statistics, got operands {sizes}")
    emit.only(attributes["momentum"] == 1, f"expected a momentum of 1, got {attributes['momentum']}")
    emit.call("batch_norm_training", emit.inputs, emit.results, NormParams(attributes["epsilon"]), emit.numerics())
