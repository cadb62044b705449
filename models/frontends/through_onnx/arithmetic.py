"""Arithmetic that torch-mlir lowers to other numbers, or not at all: remainders, unsigned integers, FP8, booleans."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from opscope.models.frontends.through_onnx.writer import Writer

SIGNED = {
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
}
"""Unsigned type -> a signed one that holds its numbers."""
UNSIGNED = frozenset([*SIGNED, TensorProto.UINT64])
SATURATING = frozenset(
    [
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.FLOAT8E8M0,
    ]
)
"""Types to which a Cast saturates unless it is asked not to."""
WIDER = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def mod(write: Writer) -> None:
    """The remainder with the divisor's sign, from that with the dividend's, which torch-mlir's own has."""
    element = write.element(0)
    if write.attributes().get("fmod", 0) or element in UNSIGNED:
        return
    zero, divisor = write.constant(np.zeros(()), element), write.input(1)
    rest = write.op("Mod", write.input(0), divisor, fmod=1)
    if element in WIDER:  # torch-mlir's own multiplies an infinite divisor by zero
        infinity = write.constant(np.asarray(np.inf), element)
        infinite = write.op("Equal", write.op("Abs", divisor), infinity)
        finite = write.op("Less", write.op("Abs", write.input(0)), infinity)
        rest = write.op("Where", write.op("And", infinite, finite), write.input(0), rest)
    other_sign = write.op("Xor", write.op("Less", rest, zero), write.op("Less", divisor, zero))
    wrong = write.op("And", other_sign, write.op("Not", write.op("Equal", rest, zero)))
    write.finish(0, write.op("Where", wrong, write.op("Add", rest, divisor), rest))


def compare(write: Writer) -> None:
    """A comparison of unsigned integers as one of signed integers with the same numbers; of 64 bits the largest number
    is the smallest one with the sign turned."""
    if write.element(0) in UNSIGNED:
        write.finish(0, write.op(write.node.op_type, *(_signed(write, n) for n in (0, 1))))


def top_k(write: Writer) -> None:
    """The largest or smallest of unsigned integers, by the order of signed ones."""
    if write.element(0) not in UNSIGNED:
        return
    axis = int(write.attributes().get("axis", -1)) % len(write.shape(0))
    indices = f"{write.node.output[1] or write.node.output[0]}/places"
    write.op("TopK", _signed(write, 0), write.input(1), outputs=[f"{indices}/keys", indices], **write.attributes())
    write.finish(0, write.op("GatherElements", write.input(0), indices, axis=axis))
    write.finish(1, indices)


def _signed(write: Writer, index: int) -> str:
    """Unsigned integers as signed ones in the same order."""
    element, x = write.element(index), write.input(index)
    if element != TensorProto.UINT64:
        return write.op("Cast", x, to=SIGNED[element])
    least = write.constant(np.asarray(np.iinfo(np.int64).min), TensorProto.INT64)
    return write.op("Add", write.op("Cast", x, to=TensorProto.INT64), least)


def reduce_bool(write: Writer) -> None:
    """The largest or smallest of booleans, as integers; of none it is the smallest or the largest of those."""
    if write.element(0) != TensorProto.BOOL:
        return
    axes = [write.input(1)] if write.has(1) else []
    numbers = write.op("Cast", write.input(0), to=TensorProto.INT32)
    reduced = write.op(write.node.op_type, numbers, *axes, **write.attributes())
    zero = write.constant(np.zeros(()), TensorProto.INT32)
    write.finish(0, write.op("Greater", reduced, zero))


def lp_normalization(write: Writer) -> None:
    """x / |x|, and 0 where the norm is 0."""
    node = write.attributes()
    axes, norm = write.ints([int(node.get("axis", -1))]), {1: "ReduceL1", 2: "ReduceL2"}[int(node.get("p", 2))]
    x, zero = write.input(0), write.constant(np.zeros(()), write.element(0))
    size = write.op(norm, x, axes, keepdims=1)
    none = write.op("Equal", size, zero)
    one = write.constant(np.ones(()), write.element(0))
    write.finish(0, write.op("Where", none, zero, write.op("Div", x, write.op("Where", none, one, size))))


def cast(write: Writer) -> None:
    """A conversion, also to the type of another value; to FP8 it saturates unless it is asked not to, to FP4 always."""
    node = write.attributes()
    like = write.node.op_type == "CastLike"
    to = write.element(1) if like else int(node["to"])
    saturates = to == TensorProto.FLOAT4E2M1 or (to in SATURATING and node.get("saturate", 1))
    if write.element(0) in WIDER and saturates:
        how = {"round_mode": node["round_mode"]} if "round_mode" in node else {}
        write.finish(0, saturated(write, write.input(0), write.element(0), to, **how))
    elif like:
        write.finish(0, write.op("Cast", write.input(0), to=to))


def saturated(write: Writer, x: str, element: int, to: int, **how: str) -> str:
    """`x`, floats of type `element`, in a narrower float type, whose largest number holds what is beyond it."""
    import ml_dtypes

    largest = float(ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(to)).max)
    ends = [write.constant(np.asarray(end), element) for end in (-largest, largest)]
    return write.op("Cast", write.op("Clip", x, *ends), to=to, **how)
