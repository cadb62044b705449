"""Ops of ONNX that torch-mlir has no lowering for, written as ops that it has."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from opscope.models.frontends.through_onnx.writer import Writer


def hardmax(write: Writer) -> None:
    """1 at the first of the largest along an axis, 0 elsewhere."""
    axis = int(write.attributes().get("axis", -1)) % len(write.shape(0))
    place = write.op("ArgMax", write.input(0), axis=axis, keepdims=1)
    hit = write.op("Equal", _counted(write, axis), place)
    write.finish(0, write.op("Cast", hit, to=write.element(0)))


def cumulative_product(write: Writer) -> None:
    """Products of all elements up to each, in as many steps as the length has bits: each doubles how many it holds."""
    node, shape = write.attributes(), write.shape(0)
    axis = int(write.constant_input(1)) % len(shape)
    backwards, length, x = bool(node.get("reverse", 0)), shape[axis], write.input(0)

    def moved(x: str, by: int) -> str:
        """The elements before (or after) by so many places, and ones."""
        ones = write.constant(np.ones([*shape[:axis], by, *shape[axis + 1 :]]), write.element(0))
        kept = write.part(x, axis, by, length) if backwards else write.part(x, axis, 0, length - by)
        return write.op("Concat", *((kept, ones) if backwards else (ones, kept)), axis=axis)

    if node.get("exclusive", 0):
        x = moved(x, 1)
    for step in range(math.ceil(math.log2(max(1, length)))):
        x = write.op("Mul", x, moved(x, 1 << step))
    write.finish(0, x)


def reverse_sequence(write: Writer) -> None:
    """The first `sequence_lens[b]` elements of each batch in reverse order, the others in their places."""
    node, shape = write.attributes(), write.shape(0)
    batch, time = int(node.get("batch_axis", 1)), int(node.get("time_axis", 0))
    lengths = write.op("Reshape", write.input(1), write.ints(_beside(shape, batch)))
    place = _counted(write, time)
    mirrored = write.op("Sub", write.op("Sub", lengths, write.constant(np.asarray(1, np.int64))), place)
    source = write.op("Where", write.op("Less", place, lengths), mirrored, place)
    whole = write.op("Expand", source, write.ints(shape))
    write.finish(0, write.op("GatherElements", write.input(0), whole, axis=time))


def einsum(write: Writer) -> None:
    """A product with operands of no dimensions, as one of the others that is multiplied by these."""
    terms, arrow, result = str(write.attributes()["equation"]).replace(" ", "").partition("->")
    scalars = [n for n, _ in enumerate(write.node.input) if not write.shape(n)]
    if not scalars:
        return
    others = [(n, term) for n, term in enumerate(terms.split(",")) if n not in scalars]
    product = ""
    if others:
        equation = ",".join(term for _, term in others) + arrow + result
        product = write.op("Einsum", *(write.input(n) for n, _ in others), equation=equation)
    for n in scalars:
        product = write.op("Mul", product, write.input(n)) if product else write.input(n)
    write.finish(0, product)


def product_of_integers(write: Writer) -> None:
    """A convolution of integers, whose sums float32 holds as long as they are below 2^24."""
    x, w = (_without_zero(write, index, index + 2) for index in (0, 1))
    write.finish(0, write.op("Cast", write.op("Conv", x, w, **write.attributes()), to=TensorProto.INT32))


def quantised_product(write: Writer) -> None:
    """round(product of (x - x_zero) and (w - w_zero), times x_scale w_scale / y_scale) + y_zero, saturated."""
    kind = {"QLinearMatMul": "MatMul", "QLinearConv": "Conv"}[write.node.op_type]
    x, w = (_without_zero(write, index, index + 2) for index in (0, 3))
    terms = [x, w]
    if write.has(8):
        terms.append(write.op("Cast", write.input(8), to=TensorProto.FLOAT))
    product = write.op(kind, *terms, **write.attributes())
    x_scale, w_scale, y_scale = (write.op("Cast", write.input(n), to=TensorProto.FLOAT) for n in (1, 4, 6))
    scale = write.op("Div", write.op("Mul", x_scale, w_scale), y_scale)
    if kind == "Conv" and math.prod(write.shape(4)) > 1:  # one for each channel of the result
        scale = write.op("Reshape", scale, write.ints([-1] + [1] * (len(write.shape(0)) - 2)))
    element = write.element(7)
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(element))
    steps = write.op("Round", write.op("Mul", product, scale))
    steps = write.op("Add", steps, write.op("Cast", write.input(7), to=TensorProto.FLOAT))
    low, high = (write.constant(np.asarray(int(end), np.float32)) for end in (limits.min, limits.max))
    write.finish(0, write.op("Cast", write.op("Clip", steps, low, high), to=element))


def _without_zero(write: Writer, index: int, zero: int) -> str:
    """An input of integers less its zero point, as float32; one for each row, or for each channel of weights."""
    x = write.op("Cast", write.input(index), to=TensorProto.FLOAT)
    if not write.has(zero):
        return x
    value = write.op("Cast", write.input(zero), to=TensorProto.FLOAT)
    size = math.prod(write.shape(zero))
    if size > 1 and "Conv" in write.node.op_type:
        value = write.op("Reshape", value, write.ints([size] + [1] * (len(write.shape(index)) - 1)))
    return write.op("Sub", x, value)


def _counted(write: Writer, axis: int) -> str:
    """0, 1, 2, ... along an axis of the first input's shape, int64."""
    shape = write.shape(0)
    return write.constant(np.arange(shape[axis], dtype=np.int64).reshape(_beside(shape, axis)))


def _beside(shape: tuple[int, ...], axis: int) -> list[int]:
    """A shape in which what belongs to an axis lies along it."""
    return [length if a == axis else 1 for a, length in enumerate(shape)]
