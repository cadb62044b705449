"""Slices at a start known only at run time, by their name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.dynamic_slice import vector
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named


@named("stablehlo.dynamic_slice")
def dynamic_slice(e: Emit) -> SSAValue:
    """Starts become one tensor, and ends are these plus the sizes."""
    value, *starts = e.operands
    sizes = e.ints("slice_sizes")
    if not starts:
        return value
    return slice_dynamic(e, value, vector(e, starts), sizes)


def slice_dynamic(e: Emit, value: SSAValue, begins: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Emits the ends and the slice."""
    ends = e.emit("add", [begins, integers(e, sizes, begins)], begins.type)
    return e.emit("slice_dynamic", [value, begins, ends], e.result_type)


def integers(e: Emit, numbers: Sequence[int], like: SSAValue) -> SSAValue:
    """Returns a constant vector in the element type of `like`."""
    kind: Any = like.type
    kind_of_numbers = TensorType(kind.element_type, [len(numbers)])
    data = np.asarray(numbers, f"<i{kind.element_type.width.data // 8}").tobytes()
    return e.emit("constant", [], kind_of_numbers, value=DenseIntOrFPElementsAttr(kind_of_numbers, BytesAttr(data)))
