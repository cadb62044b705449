"""Elementwise ops whose StableHLO form differs from the device's."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from compiler.ops.shapes import shape_of
from compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers("stablehlo.compare")
def compare(e: Emit) -> SSAValue:
    """One op per direction."""
    kind = e.attr("compare_type")
    if kind is not None and kind.value == "TOTALORDER":
        raise e.refuse("compare_type TOTALORDER: orders NaNs and signed zeros, which the device's comparison does not")
    return e.emit(e.spec("comparison_direction").value.lower(), e.operands, e.result_type)


@lowers("stablehlo.clamp")
def clamp(e: Emit) -> SSAValue:
    """The operand comes first on the device; bounds may be scalars on both sides."""
    low, value, high = e.operands
    return e.emit("clamp_tensor", [value, low, high], e.result_type)


@lowers("chlo.square")
def square(e: Emit) -> SSAValue:
    """x * x, rounded once, as the specification's multiply does."""
    return e.emit("multiply", [e.operands[0], e.operands[0]], e.result_type)


@lowers("stablehlo.bitcast_convert")
def bitcast_convert(e: Emit) -> SSAValue:
    """Same bits, another type of equal width."""
    if shape_of(e.operands[0]) != e.result_shape:
        raise e.refuse("element widths differ: one element becomes several, or several one")
    return e.emit("bitcast_convert", e.operands, e.result_type)


@lowers("stablehlo.reduce_precision")
def reduce_precision(e: Emit) -> SSAValue:
    """The two attributes lose their width."""
    bits: dict[str, Any] = {}
    for key in ("exponent_bits", "mantissa_bits"):
        attr = e.attr(key)
        bits[key] = attr.value.data if isinstance(attr, IntegerAttr) else 0
    return e.emit("reduce_precision", e.operands, e.result_type, **bits)


@lowers("stablehlo.optimization_barrier")
def optimization_barrier(e: Emit) -> list[SSAValue]:
    """Its operands."""
    return e.operands
