"""Names a window sum that reaches back to the start: `cumsum`, as exporters write running sums."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import make, shape_of
from opscope.compiler.passes.ttir_fusing.matching import fuses


@fuses("sum_pool2d")
def cumsum(op: RowOp) -> list[RowOp] | None:
    """Matches a window as long as one dim, padded so that it ends at each element (or begins there, backwards)."""
    attrs, shape = op.read(), shape_of(op.operands[0])
    for dim in (1, 2):
        size, place = shape[dim], 2 * (dim - 1)
        kernel = (size, 1) if dim == 1 else (1, size)
        before, after = attrs["padding"][place : place + 2]
        other = attrs["padding"][2 - place : 4 - place]
        if tuple(attrs["kernel"]) != kernel or size < 2 or any(other) or {before, after} != {0, size - 1}:
            continue
        if tuple(attrs["stride"]) != (1, 1) or tuple(attrs["dilation"]) != (1, 1):
            continue
        kind = op.results[0].type
        if before:
            return [make("cumsum", op.operands, kind, op, dim=dim)]
        turned = make("reverse", op.operands, kind, op, dimensions=(dim,))
        summed = make("cumsum", turned.results, kind, op, dim=dim)
        return [turned, summed, make("reverse", summed.results, kind, op, dimensions=(dim,))]
    return None
