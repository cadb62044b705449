"""Writes ONNX's QuantizeLinear and DequantizeLinear as plain arithmetic.

torch-mlir would make quantised types of them, in a form that StableHLO's verifier refuses.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from opscope.models.frontends.through_onnx.arithmetic import saturated
from opscope.models.frontends.through_onnx.writer import Writer


def dequantize(write: Writer) -> None:
    """(x - zero) * scale, in the type of the scale."""
    scale, zero = _scale_and_zero(write)
    kind = int(write.attributes().get("output_dtype", 0)) or write.element(1)
    x = write.op("Cast", write.input(0), to=TensorProto.FLOAT)
    y = write.op("Mul", write.op("Sub", x, zero) if zero else x, scale)
    write.finish(0, y if kind == TensorProto.FLOAT else write.op("Cast", y, to=kind))


def quantize(write: Writer) -> None:
    """saturate(round(x / scale) + zero), ties to even; for narrow floats, the conversion of x / scale + zero."""
    scale, zero = _scale_and_zero(write)
    wanted = int(write.attributes().get("output_dtype", 0)) or TensorProto.UINT8
    kind = write.element(2) if write.has(2) else wanted
    x = write.input(0)
    if write.element(0) != TensorProto.FLOAT:
        x = write.op("Cast", x, to=TensorProto.FLOAT)
    steps = write.op("Div", x, scale)
    try:
        limits = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    except ValueError:  # a float of 8 or 4 bits
        steps = write.op("Add", steps, zero) if zero else steps
        if kind == TensorProto.FLOAT4E2M1 or write.attributes().get("saturate", 1):
            write.finish(0, saturated(write, steps, TensorProto.FLOAT, kind))
        else:
            write.finish(0, write.op("Cast", steps, to=kind))
        return
    steps = write.op("Round", steps)
    steps = write.op("Add", steps, zero) if zero else steps
    low, high = (write.constant(np.asarray(int(end), np.float32)) for end in (limits.min, limits.max))
    write.finish(0, write.op("Cast", write.op("Clip", steps, low, high), to=kind))


def _scale_and_zero(write: Writer) -> tuple[str, str]:
    """Names of scale and zero point as float32 values that broadcast over the first input; no zero point: ""."""
    zero = ""
    if write.has(2) and (write.known(2) is None or write.constant_input(2).astype(np.float32).any()):
        zero = _spread(write, 2)
    return _spread(write, 1), zero


def _spread(write: Writer, index: int) -> str:
    """One value for the tensor, per element of the node's `axis`, or per block of `block_size` elements of it."""
    node, shape = write.attributes(), write.shape(0)
    axis, block = int(node.get("axis", 1)), int(node.get("block_size", 0))
    value = write.known(index)
    if value is None:
        if block:
            raise write.refusal("constant scales of blocks", f"{write.input(index)!r}, which is computed")
        name = write.op("Cast", write.input(index), to=TensorProto.FLOAT)
        size = int(np.prod(write.shape(index), dtype=np.int64))
        return write.op("Reshape", name, write.ints(_beside(size, axis, len(shape))))
    value = value.astype(np.float32)
    if block and value.size > 1:
        axis %= len(shape)
        return write.constant(np.repeat(value, block, axis)[(*[slice(None)] * axis, slice(shape[axis]))])
    return write.constant(value.reshape(_beside(value.size, axis, len(shape))))


def _beside(size: int, axis: int, rank: int) -> list[int]:
    """The shape in which `size` values lie along an axis; a single value is a scalar."""
    return [size if a == axis % rank else 1 for a in range(rank)] if size > 1 else []
