"""Constants behind StableHLO values, seen through broadcasts, reshapes and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.splat import splat_value

THROUGH = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert", "stablehlo.broadcast")


def maker(value: SSAValue, name: str = "") -> Operation | None:
    """Returns the op that makes a value, if it has that name."""
    op = value.owner
    return op if isinstance(op, Operation) and (not name or op.name == name) else None


def splat(value: SSAValue) -> float | int | None:
    """Returns the number that every element of a value is, if a constant makes it; else None."""
    op = maker(value)
    while op is not None and op.name in THROUGH:
        op = maker(op.operands[0])
    if op is None or op.name != "stablehlo.constant":
        return None
    number = splat_value(op.attributes.get("value"))
    return None if isinstance(number, complex | tuple) else number


def integers(value: SSAValue) -> np.ndarray | None:
    """Returns the elements of a constant of integers in its shape; else None."""
    op = maker(value, "stablehlo.constant")
    number: Any = op.attributes.get("value") if op is not None else None
    if not isinstance(number, DenseIntOrFPElementsAttr) or not hasattr(number.get_element_type(), "width"):
        return None
    return np.asarray(number.get_values(), np.int64).reshape(shape_of(value))
