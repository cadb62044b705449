"""Elementwise ops whose StableHLO form differs from the device's."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, TensorType, i1
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.options import WAY_OUT
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.random import split
from opscope.compiler.target.formats import ELEMENT_TYPES


@lowers("stablehlo.compare")
def compare(e: Emit) -> SSAValue:
    """Emits one op per direction; floats in total order are compared by integers with the same order."""
    kind = e.attr("compare_type")
    operands = e.operands
    if kind is not None and kind.value == "TOTALORDER":
        operands = [_order_key(e, v) for v in operands]
    return e.emit(e.spec("comparison_direction").value.lower(), operands, e.result_type)


def _order_key(e: Emit, value: SSAValue) -> SSAValue:
    """Returns integers in the total order of floats: their bits, all but the sign inverted for negative numbers."""
    kind: Any = value.type
    element = kind.element_type
    if not isinstance(element, AnyFloat):
        return value
    signed = IntegerType(element.bitwidth)
    shape = shape_of(value)
    bits = e.emit("bitcast_convert", [value], TensorType(signed, shape))
    mask = e.full((), signed, 2 ** (element.bitwidth - 1) - 1)
    turned = e.emit("bitwise_xor", [bits, mask], bits.type)
    negative = e.emit("lt", [bits, e.full((), signed, 0)], TensorType(i1, shape))
    return e.emit("where", [negative, turned, bits], bits.type)


@lowers("stablehlo.clamp")
def clamp(e: Emit) -> SSAValue:
    """Clamps; on the device the operand comes first, and both bounds may be scalars."""
    low, value, high = e.operands
    return e.emit("clamp_tensor", [value, low, high], e.result_type)


@lowers("chlo.square")
def square(e: Emit) -> SSAValue:
    """Emits x * x, rounded once, as the specification's multiply does."""
    return e.emit("multiply", [e.operands[0], e.operands[0]], e.result_type)


@lowers("stablehlo.real")
def real(e: Emit) -> SSAValue:
    """Returns the operand: a float is its own real part."""
    return e.operands[0]


@lowers("stablehlo.imag")
def imag(e: Emit) -> SSAValue:
    """Returns zeros: a float has no imaginary part."""
    return e.full(e.result_shape, e.result_type.element_type, 0)


@lowers("stablehlo.bitcast_convert")
def bitcast_convert(e: Emit) -> SSAValue:
    """Reinterprets bits as another type; a last dim comes or goes if widths differ. 64 bits are words on the device."""
    (value,) = e.operands
    types = (element_of(value), element_text(e.result_type.element_type))
    if types in (("i64", "ui32"), ("ui64", "ui32")):
        return split(e, value)
    if types in (("ui32", "i64"), ("ui32", "ui64")):
        return e.emit("join_words", [value], e.result_type)
    if value.type == e.result_type:
        return value
    if "i1" in types:
        for row in map(ELEMENT_TYPES.__getitem__, types):
            if row.data_format is None and row.name not in ("i64", "ui64"):  # these have words
                raise e.refuse(
                    f"expected element types that the device has, got {row.name}: {row.why_not}{WAY_OUT}", "never"
                )
        raise e.refuse(
            "expected elements of whole bytes, got i1: the device holds one in a byte; try --unsupported-types=fallback"
        )
    return e.emit("bitcast_convert", [value], e.result_type)


@lowers("stablehlo.reduce_precision")
def reduce_precision(e: Emit) -> SSAValue:
    """Copies the two attributes without their integer type."""
    bits: dict[str, Any] = {}
    for key in ("exponent_bits", "mantissa_bits"):
        attr = e.attr(key)
        bits[key] = attr.value.data if isinstance(attr, IntegerAttr) else 0
    return e.emit("reduce_precision", e.operands, e.result_type, **bits)


@lowers("stablehlo.optimization_barrier")
def optimization_barrier(e: Emit) -> list[SSAValue]:
    """Returns the operands."""
    return e.operands
