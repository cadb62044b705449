"""Fuses a sum that is divided by its count: `mean`."""

from __future__ import annotations

from math import prod

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import is_float, make, maker, read_once, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import fuses


@fuses("div")
def mean(op: RowOp) -> list[RowOp] | None:
    """Matches sum(x) / n, where n is the number of elements in each sum."""
    total, count = op.operands
    source = maker(total, "sum")
    if source is None or not read_once(total) or not is_float(total) or total.type != op.results[0].type:
        return None
    shape, dims = shape_of(source.operands[0]), source.read()["dim_arg"]
    if splat(count) != prod(shape[d] for d in dims):
        return None
    return [make("mean", source.operands, op.results[0].type, op, **source.read())]
