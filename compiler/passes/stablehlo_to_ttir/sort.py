"""Sorting and the largest k."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around


@lowers("stablehlo.sort")
def sort(e: Emit) -> list[SSAValue]:
    """Sorts all operands by one comparator. The sort is always stable, which an unstable sort may be too."""
    assert e.functions is not None
    rank = len(shape_of(e.operands[0]))
    (dim,) = e.ints("dimension", [-1])
    (comparator,) = e.op.regions
    outside = read_around(e, [comparator])
    return e.emit_all(
        "sort",
        [*e.operands, *lowered(e, outside)],
        e.result_types,
        dim=dim % max(rank, 1),
        programs=[e.functions.scalar(e, comparator, outside)],
    )


@lowers("chlo.top_k")
def top_k(e: Emit) -> list[SSAValue]:
    """Returns the `k` largest values and their indices along the last dim."""
    (k,) = e.ints("k")
    return e.topk(k)
