"""Rewrites ops inside host ops so that XLA computes what the specification asks for.

Without this, XLA's CPU orders complex numbers by their real parts alone, keeps a NaN where `reduce_precision` leaves no
mantissa bit, makes denormals of double precision zero, and takes an i1 for eight bits where bits are converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float64Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from opscope.base.xla import ieee_denormals
from opscope.compiler.dialects.stablehlo import CLASSES, spec_attr


def append(op: Operation, block: Block) -> list[SSAValue]:
    """Adds `op` to `block`, rewritten where needed, and returns its results there."""
    speller = _SPELLERS.get(op.name)
    results = speller(op, block) if speller else None
    if results is None:
        block.add_op(op)
        return list(op.results)
    return results


def is_double(value: SSAValue) -> bool:
    """Whether a value is of double precision, real or complex."""
    element = value.type.element_type if isinstance(value.type, TensorType) else None
    return isinstance(element.element_type if isinstance(element, ComplexType) else element, Float64Type)


def keeping_denormals(block: Block) -> Sequence[SSAValue]:
    """Begins `block` with the call after which XLA keeps denormals, and returns its arguments as that hands them on."""
    if not block.args:
        return ()
    call = CLASSES["stablehlo.custom_call"].create(
        operands=list(block.args),
        result_types=[argument.type for argument in block.args],
        attributes={
            "call_target_name": StringAttr(ieee_denormals.TARGET),
            "api_version": IntegerAttr(ieee_denormals.TYPED_IN_STABLEHLO, i32),
            "has_side_effect": BoolAttr.from_bool(True),
            "output_operand_aliases": ArrayAttr(
                spec_attr(alias, {}) for alias in ieee_denormals.aliases(len(block.args))
            ),
        },
    )
    block.add_op(call)
    return call.results


def _make(block: Block, name: str, operands: list[SSAValue], result: Any, **attributes: Any) -> SSAValue:
    new_op = CLASSES[f"stablehlo.{name}"].create(operands=operands, result_types=[result], attributes=attributes)
    block.add_op(new_op)
    return new_op.results[0]


def _compare(block: Block, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
    kind: Any = a.type
    word = spec_attr(f"#stablehlo<comparison_direction {direction}>", {"value": direction})
    return _make(block, "compare", [a, b], TensorType(i1, kind.get_shape()), comparison_direction=word)


def _choose(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns the greater or lesser of two complex numbers, compared by real part, then by imaginary part."""
    a, b = op.operands
    kind: Any = a.type
    if not isinstance(kind.element_type, ComplexType):
        return None
    strict = "GT" if op.name.endswith("maximum") else "LT"
    part = TensorType(kind.element_type.element_type, kind.get_shape())
    (ra, ia), (rb, ib) = ([_make(block, name, [v], part) for name in ("real", "imag")] for v in (a, b))
    mask = TensorType(i1, kind.get_shape())
    tie = _make(block, "and", [_compare(block, "EQ", ra, rb), _compare(block, strict, ia, ib)], mask)
    first = _make(block, "or", [_compare(block, strict, ra, rb), tie], mask)
    return [_make(block, "select", [first, a, b], kind)]


def _nan_without_mantissa(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns infinity for NaN if the format has no mantissa bit to tell them apart."""
    (x,) = op.operands
    bits: Any = op.attributes["mantissa_bits"]
    if bits.value.data:
        return None
    kind: Any = x.type
    block.add_op(op)
    value = DenseIntOrFPElementsAttr.from_list(kind, [float("inf")] * math.prod(kind.get_shape()))
    infinity = _make(block, "constant", [], kind, value=value)
    return [_make(block, "select", [_compare(block, "NE", x, x), infinity, op.results[0]], kind)]


def _single_bits(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns the bits of a number as i1, the lowest first, or the number of such bits."""
    (x,), kind, result = op.operands, op.operands[0].type, op.results[0].type
    assert isinstance(kind, TensorType)
    assert isinstance(result, TensorType)
    if (kind.element_type == i1) == (result.element_type == i1):
        return None
    spread, packed = (kind, result) if kind.element_type == i1 else (result, kind)
    shape = spread.get_shape()
    *outer, count = shape
    word = IntegerType(count, Signedness.UNSIGNED)
    words, each = TensorType(word, outer), TensorType(word, shape)
    places = _make(block, "iota", [], each, iota_dimension=IntegerAttr(len(outer), i64))
    if packed is kind:
        number = _make(block, "bitcast_convert", [x], words)
        dims = DenseArrayBase.from_list(i64, list(range(len(outer))))
        number = _make(block, "broadcast_in_dim", [number], each, broadcast_dimensions=dims)
        bits = _make(block, "shift_right_logical", [number, places], each)
        one = _make(block, "constant", [], each, value=DenseIntOrFPElementsAttr.from_list(each, [1]))
        zero = _make(block, "constant", [], each, value=DenseIntOrFPElementsAttr.from_list(each, [0]))
        return [_compare(block, "NE", _make(block, "and", [bits, one], each), zero)]
    bits = _make(block, "shift_left", [_make(block, "convert", [x], each), places], each)
    scalar = TensorType(word, [])
    start = _make(block, "constant", [], scalar, value=DenseIntOrFPElementsAttr.from_list(scalar, [0]))
    join = Block(arg_types=[scalar, scalar])
    joined = _make(join, "or", list(join.args), scalar)
    join.add_op(CLASSES["stablehlo.return"].create(operands=[joined]))
    reduce = CLASSES["stablehlo.reduce"].create(
        operands=[bits, start],
        result_types=[words],
        attributes={"dimensions": DenseArrayBase.from_list(i64, [len(outer)])},
        regions=[Region(join)],
    )
    block.add_op(reduce)
    return [_make(block, "bitcast_convert", [reduce.results[0]], packed)]


_SPELLERS: dict[str, Callable[[Operation, Block], list[SSAValue] | None]] = {
    "stablehlo.bitcast_convert": _single_bits,
    "stablehlo.maximum": _choose,
    "stablehlo.minimum": _choose,
    "stablehlo.reduce_precision": _nan_without_mantissa,
}
