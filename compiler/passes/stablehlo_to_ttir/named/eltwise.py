"""Constants, and logic on integers that were booleans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.dialects.stablehlo import SpecAttr
from opscope.compiler.dialects.ttcore import OptimizationBarrierOp, ReduceTypeAttr
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.complex_numbers import as_real
from opscope.compiler.passes.stablehlo_to_ttir.named.known import maker, splat

LOGIC = {"stablehlo.or": "logical_or", "stablehlo.and": "logical_and", "stablehlo.xor": "logical_xor"}


@named("stablehlo.constant")
def constant(e: Emit) -> SSAValue | None:
    """Emits `constant`, whether or not all elements are equal; of complex numbers their parts."""
    number = e.attr("value")
    if isinstance(number, SpecAttr):  # complex elements, which the door keeps as text
        kind: Any = as_real(e.result_type)
        return e.emit("constant", [], kind, value=DenseIntOrFPElementsAttr(kind, _parts(e, number.text.data)))
    return e.emit("constant", [], e.result_type, value=number) if isinstance(number, DenseIntOrFPElementsAttr) else None


def _parts(e: Emit, words: str) -> BytesAttr:
    """Returns the bytes of complex elements, real part first, from their text. Raises StageFailure for other text."""
    element = e.result_type.element_type.element_type
    numbers = [float(word) for word in re.findall(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?", words.rpartition(" : ")[0])]
    count = 2 * prod(e.result_shape)
    if "0x" in words or not numbers or (len(numbers) != 2 and len(numbers) != count):
        raise e.refuse("expected complex elements as decimal numbers, got others")
    return BytesAttr(element.pack(tuple(numbers * (count // len(numbers)))))


@named("stablehlo.get_dimension_size")
def get_dimension_size(e: Emit) -> SSAValue | None:
    """Sizes are known: a constant."""
    (dim,) = e.ints("dimension")
    size = shape_of(e.operands[0])[dim]
    return e.constant(e.result_type, size) if size >= 0 else None


@named("stablehlo.round_nearest_afz")
def round_nearest_afz(e: Emit) -> SSAValue:
    """The sign times the floor of the magnitude plus a half, which rounds the number just below a half to 1."""
    (value,) = e.operands
    kind = value.type
    half = e.constant(kind, 0.5)
    floor = e.emit("floor", [e.emit("add", [e.emit("abs", [value], kind), half], kind)], kind)
    return e.emit("multiply", [e.emit("sign", [value], kind), floor], kind)


@named("stablehlo.pad")
def pad(e: Emit) -> SSAValue | None:
    """The value is an attribute if constants make it, also of integers that a float32 holds; elements that the padding
    parts are scattered over a tensor of it."""
    number = splat(e.op.operands[1])
    if number is None or float(np.float32(number)) != number:
        return None
    low, high, inner = (e.ints(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if any(inner):
        return None if min(*low, *high) < 0 else _spread(e, number, low, inner)
    padding = [edge for pair in zip(low, high, strict=True) for edge in pair]
    return e.emit("pad", [e.operands[0]], e.result_type, padding=padding, value=float(number))


def _spread(e: Emit, number: float, low: Sequence[int], inner: Sequence[int]) -> SSAValue:
    value, shape = e.operands[0], e.result_shape
    count, size = prod(shape_of(value)), prod(shape)
    places = np.indices(shape_of(value)).reshape(len(shape), -1)
    moved = [first + at * (step + 1) for first, at, step in zip(low, places, inner, strict=True)]
    kind = TensorType(i64, [count])
    data = np.ravel_multi_index(moved, shape).astype("<i8").tobytes()
    line = e.like(value, (size,))
    full = e.full([size], e.result_type.element_type, number)
    index = e.emit("constant", [], kind, value=DenseIntOrFPElementsAttr(kind, BytesAttr(data)))
    update = ReduceTypeAttr.of("invalid")
    spread = e.emit("scatter", [full, index, e.reshape(value, [count])], line, dim=0, scatter_reduce_type=update)
    return e.reshape(spread, shape)


@named("stablehlo.broadcast_in_dim")
def broadcast_in_dim(e: Emit) -> SSAValue:
    """Emits a reshape to the result's rank if that changes anything, and always a broadcast."""
    (value,) = e.operands
    dims = e.ints("broadcast_dimensions")
    if list(dims) != sorted(dims):
        value = e.permute(value, sorted(range(len(dims)), key=dims.__getitem__))
    place = dict(zip(sorted(dims), shape_of(value), strict=True))
    value = e.reshape(value, [place.get(d, 1) for d in range(len(e.result_shape))])
    if not e.result_shape:
        return value
    factors = [new // n if n else 1 for n, new in zip(shape_of(value), e.result_shape, strict=True)]
    return e.emit("broadcast", [value], e.result_type, broadcast_dimensions=factors)


@named("stablehlo.optimization_barrier")
def optimization_barrier(e: Emit) -> list[SSAValue]:
    """Keeps the barrier, which only matters to passes of tt-mlir."""
    barrier = OptimizationBarrierOp.create(
        operands=e.operands, result_types=[value.type for value in e.operands], location=e.op.location
    )
    e.block.add_op(barrier)
    return list(barrier.results)


@named("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize")
def quantise(e: Emit) -> list[SSAValue]:
    """Types say scales and zero points; between two quantised types it is `requantize`."""
    name = "dequantize"
    if e.op.name == "stablehlo.uniform_quantize":
        name = "requantize" if "!quant" in element_of(e.operands[0]) else "quantize"
    return e.foreign(name, e.operands, e.result_types)


@named("stablehlo.compare")
def compare(e: Emit) -> SSAValue | None:
    """`(convert a) or (convert b) != 0` of booleans is a logical op of a and b; a number beside a widened operand is
    compared in that operand's own type, to which it is rounded."""
    if (narrow := _in_own_type(e)) is not None:
        return narrow
    if e.spec("comparison_direction").value != "NE" or splat(e.op.operands[1]) != 0:
        return None
    joined = maker(e.op.operands[0])
    if joined is None or joined.name not in LOGIC:
        return None
    sources = [maker(operand, "stablehlo.convert") for operand in joined.operands]
    if not all(source is not None and element_of(source.operands[0]) == "i1" for source in sources):
        return None
    bits = [e.values[source.operands[0]] for source in sources if source is not None]
    return e.emit(LOGIC[joined.name], bits, e.result_type)


def _in_own_type(e: Emit) -> SSAValue | None:
    """The comparison of a float that was widened for it with a constant, in the narrow type; None for another."""
    for at, other in enumerate(e.op.operands[::-1]):
        source, number = maker(e.op.operands[at], "stablehlo.convert"), splat(other)
        if source is None or number is None or _float_width(source.operands[0]) >= _float_width(e.op.operands[at]):
            continue
        narrow = e.values[source.operands[0]]
        sides = [narrow, e.constant(narrow.type, number)]
        return e.emit(e.spec("comparison_direction").value.lower(), sides if at == 0 else sides[::-1], e.result_type)
    return None


def _float_width(value: SSAValue) -> int:
    """Bits of a float; of anything else more than any float has."""
    float_type = re.match(r"b?f(\d+)", element_of(value))
    return int(float_type[1]) if float_type else 1 << 10
