"""Ops along a dim whose results depend on its order: sorts, and running values."""

from __future__ import annotations

from opscope.compiler.target.program import ReduceParams, ReverseParams, SortParams, TopkParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits

RUNNING = {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin"}
"""`reduce_type` -> kernel."""


def _dim(emit: Emit) -> int:
    rank = len(emit.desc(emit.inputs[0]).shape)
    return emit.attributes["dim"] % rank if rank else 0


@emits("sort")
def sort(emit: Emit) -> None:
    """Values and the places that they had. Always stable here, which a sort that need not be may be too."""
    emit.attributes.skip("stable")
    kernel = "sort_descending" if emit.attributes["descending"] else "sort_ascending"
    emit.call(kernel, emit.inputs, emit.results, SortParams(_dim(emit)))


@emits("topk")
def topk(emit: Emit) -> None:
    """Values and indices of the largest along the last dim, the largest first, as a topk that need not sort may do."""
    attributes, last = emit.attributes, len(emit.desc(emit.inputs[0]).shape) - 1
    attributes.skip("sorted")
    emit.only(attributes["largest"], "expected the largest, got the smallest")
    emit.only(_dim(emit) == last, f"expected the last dim, got {attributes['dim']}")
    emit.call("topk", emit.inputs, emit.results, TopkParams(attributes["k"]))


@emits("cumsum", "cumprod")
def cumulative_sum(emit: Emit) -> None:
    """Running sums or products."""
    emit.call(emit.name.removeprefix("ttnn."), emit.inputs, emit.results, ReduceParams((_dim(emit),)), emit.numerics())


@emits("cumulative")
def cumulative(emit: Emit) -> None:
    """Running values from either end, of the build of libtt."""
    attributes, (x,), (result,) = emit.attributes, emit.inputs, emit.results
    kernel = RUNNING.get(attributes["reduction"])
    emit.only(kernel is not None, f"expected a reduction of {', '.join(RUNNING)}, got {attributes['reduction']}")
    assert kernel is not None
    dims = (_dim(emit),)
    if not attributes["reverse"]:
        emit.call(kernel, [x], [result], ReduceParams(dims), emit.numerics())
        return
    turned, made = emit.tensor(emit.desc(x)), emit.tensor(emit.desc(result))
    emit.call("reverse", [x], [turned], ReverseParams(dims))
    emit.call(kernel, [turned], [made], ReduceParams(dims), emit.numerics())
    emit.call("reverse", [made], [result], ReverseParams(dims))
