"""Reductions over dims, lowered by what their body computes."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.body import is_identity, recognise
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around


@lowers("stablehlo.reduce")
def reduce(e: Emit) -> SSAValue | list[SSAValue]:
    """Emits the body's kernel, then the start value if it changes anything; else a kernel that applies the body."""
    element: Any = e.result_type.element_type
    dims = sorted(e.ints("dimensions"))
    (region,) = e.op.regions
    fold = recognise(region, element) if len(e.operands) == 2 else None
    if fold is None:
        assert e.functions is not None
        outside = read_around(e, [region])
        body = e.functions.scalar(e, region, outside)
        return e.emit_all(
            "reduce_body", [*e.operands, *lowered(e, outside)], e.result_types, dim_arg=dims, programs=[body]
        )
    value, start = e.operands
    if dims:
        value = e.emit(fold.kernel, [value], e.result_type, dim_arg=dims, keep_dim=False)
    if is_identity(fold, start, element):
        return value
    return e.emit(fold.combine, [value, start], e.result_type)
