"""Fuses a maximum with zero into `relu`."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import is_float, make, maker, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import exactly, fuses, orders


@fuses("maximum")
def relu(op: RowOp) -> list[RowOp] | None:
    """Matches max(x, 0) in either order, if an op computed x."""
    for value, zero in orders(op):
        if not exactly(splat(zero), 0.0) or maker(value) is None:
            continue
        if shape_of(value) == shape_of(op.results[0]) and is_float(value):
            return [make("relu", [value], op.results[0].type, op)]
    return None
