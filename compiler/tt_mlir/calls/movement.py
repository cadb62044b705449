"""Ops that move elements, or a tensor to another place or layout."""

from __future__ import annotations

from opscope.compiler.target.program import (
    ConcatParams,
    EltwiseParams,
    LayoutParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    SliceParams,
)
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("to_layout", "to_device", "from_device", "to_memory_config", "assign")
def place(emit: Emit) -> None:
    """The result's layout says where the tensor goes and how it lies there; another element type is a typecast too.
    `assign` copies into a buffer of its own."""
    source, target = emit.desc(emit.inputs[0]), emit.desc(emit.results[0])
    if source.element_type != target.element_type:
        emit.call("typecast", emit.inputs, emit.results, EltwiseParams(), emit.numerics())
        return
    kernel = emit.name.removeprefix("ttnn.")
    emit.call("to_memory_config" if kernel == "assign" else kernel, emit.inputs, emit.results, LayoutParams())


@emits("deallocate")
def deallocate(emit: Emit) -> None:
    """Frees a buffer."""
    emit.call("deallocate", emit.inputs, (), LayoutParams())


@emits("reshape")
def reshape(emit: Emit) -> None:
    """Another shape, row-major order kept."""
    shape = emit.desc(emit.results[0]).shape
    emit.only(tuple(emit.attributes["shape"]) == shape, f"expected the result's shape, got {emit.attributes['shape']}")
    emit.call("reshape", emit.inputs, emit.results, ReshapeParams(shape))


@emits("permute")
def permute(emit: Emit) -> None:
    """Dims in another order."""
    emit.call("permute", emit.inputs, emit.results, PermuteParams(emit.attributes["permutation"]))


@emits("transpose")
def transpose(emit: Emit) -> None:
    """Two dims in each other's place."""
    rank = len(emit.desc(emit.inputs[0]).shape)
    order = list(range(rank))
    first, second = emit.attributes["dim0"] % rank, emit.attributes["dim1"] % rank
    order[first], order[second] = second, first
    emit.call("permute", emit.inputs, emit.results, PermuteParams(tuple(order)))


@emits("slice_static")
def slice_static(emit: Emit) -> None:
    """Every step-th element from begin to end, per dim."""
    words = emit.attributes["begins"], emit.attributes["ends"], emit.attributes["step"]
    emit.call("slice_static", emit.inputs, emit.results, SliceParams(*words))


@emits("concat")
def concat(emit: Emit) -> None:
    """One after another along a dim."""
    rank = len(emit.desc(emit.results[0]).shape)
    emit.call("concat", emit.inputs, emit.results, ConcatParams(emit.attributes["dim"] % rank))


@emits("pad")
def pad(emit: Emit) -> None:
    """A value before and after the elements of each dim."""
    edges = emit.attributes["padding"]
    low, high = edges[0::2], edges[1::2]
    rank = len(emit.desc(emit.inputs[0]).shape)
    emit.only(len(edges) == 2 * rank, f"expected padding of {rank} dims, got {edges}")
    params = PadParams(low, high, (0,) * rank, float(emit.attributes["value"]))
    emit.call("pad", emit.inputs, emit.results, params)
