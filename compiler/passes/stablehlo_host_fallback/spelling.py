"""Rewrites ops inside host ops so that XLA computes what the specification asks for.

Without this, XLA's CPU orders complex numbers by their real parts alone, and keeps a NaN where `reduce_precision`
leaves no mantissa bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import ComplexType, DenseIntOrFPElementsAttr, TensorType, i1
from xdsl.ir import Block, Operation, SSAValue

from opscope.compiler.dialects.stablehlo import CLASSES, spec_attr


def append(op: Operation, block: Block) -> list[SSAValue]:
    """Adds `op` to `block`, rewritten where needed, and returns its results there."""
    speller = _SPELLERS.get(op.name)
    results = speller(op, block) if speller else None
    if results is None:
        block.add_op(op)
        return list(op.results)
    return results


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


_SPELLERS: dict[str, Callable[[Operation, Block], list[SSAValue] | None]] = {
    "stablehlo.maximum": _choose,
    "stablehlo.minimum": _choose,
    "stablehlo.reduce_precision": _nan_without_mantissa,
}
