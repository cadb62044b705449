"""Reductions over dims, by what their body computes."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from compiler.passes.stablehlo_to_ttir.body import is_identity, recognise
from compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers("stablehlo.reduce")
def reduce(e: Emit) -> SSAValue:
    """The kernel of the body, then the start value where it changes anything."""
    fold = recognise(e)
    value, start = e.operands
    element: Any = e.result_type.element_type
    dims = e.ints("dimensions")
    if dims:
        value = e.emit(fold.kernel, [value], e.result_type, dim_arg=sorted(dims), keep_dim=False)
    if is_identity(fold, start, element):
        return value
    return e.emit(fold.combine, [value, start], e.result_type)
