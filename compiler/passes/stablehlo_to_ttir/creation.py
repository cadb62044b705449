"""Constants and index tensors."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.splat import splat_value


@lowers("stablehlo.constant")
def constant(e: Emit) -> SSAValue:
    """Emits `full` if all elements have the same bits and f32 or i32 can hold them, else `constant`."""
    attr = e.attr("value")
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        raise e.refuse(f"expected dense elements of a type known to the device, got {e.result_type}")
    element: Any = e.result_type.element_type
    value = splat_value(attr)
    if value is not None and str(element) not in ("f64", "i64", "ui64") and value == value:  # NaN keeps its bits below
        return e.full(e.result_shape, element, value)
    return e.emit("constant", [], e.result_type, value=attr)


@lowers("stablehlo.get_dimension_size")
def get_dimension_size(e: Emit) -> SSAValue:
    """Emits a constant, since shapes are static."""
    (dim,) = e.ints("dimension")
    return e.full((), e.result_type.element_type, shape_of(e.op.operands[0])[dim])


@lowers("stablehlo.iota")
def iota(e: Emit) -> SSAValue:
    """Emits `arange` along one dim; iota always has at least one."""
    (dim,) = e.ints("iota_dimension")
    end = e.result_shape[dim]
    return e.emit("arange", [], e.result_type, start=0, end=end, step=1, arange_dimension=dim)
