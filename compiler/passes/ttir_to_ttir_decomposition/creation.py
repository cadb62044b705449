"""Tensors of one value, and random ones."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.stablehlo_to_ttir.rng import unit_floats
from opscope.compiler.passes.stablehlo_to_ttir.splat import splat_value
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import binary, decomposes


@decomposes("zeros", "empty")
def zeros(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """An empty tensor may hold anything, so zeros."""
    return e.full(e.result_shape, e.result_type.element_type, 0)


@decomposes("ones")
def ones(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """All ones."""
    return e.full(e.result_shape, e.result_type.element_type, 1)


@decomposes("get_dimension_size")
def get_dimension_size(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """The size, which is known."""
    return e.full(e.result_shape, e.result_type.element_type, shape_of(e.operands[0])[attrs["dimension"]])


@decomposes("constant")
def constant(e: Emit, attrs: dict[str, Any]) -> SSAValue | None:
    """A constant of one value is a `full`, if f32 or i32 hold it; passes look for those."""
    number = attrs["value"]
    value = splat_value(number) if isinstance(number, DenseIntOrFPElementsAttr) else None
    element = e.result_type.element_type
    if value is None or str(element) in ("f64", "i64", "ui64") or value != value:
        return None
    return e.full(e.result_shape, element, value)


@decomposes("rand")
def rand(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Uniform floats in [low, high) from a state that the seed names: the algorithm is each implementation's."""
    wide = TensorType(f32, e.result_shape)
    unit = unit_floats(e, wide, f"seed {attrs['seed']}")
    scaled = binary(e, "multiply", unit, attrs["high"] - attrs["low"])
    return e.typecast(binary(e, "add", scaled, attrs["low"]), e.result_type.element_type)
