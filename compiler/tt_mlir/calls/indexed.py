"""Ops that take or write elements at places that an operand names."""

from __future__ import annotations

from opscope.compiler.target.program import BroadcastParams, GatherParams, IndexedRowsParams, SliceParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits

COMBINES = {"invalid": "update", "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""`reduce_type` of a scatter -> the kernel that joins old value and update; `invalid` is none: the update replaces."""


@emits("rows_gather")
def rows_gather(emit: Emit) -> None:
    """Rows, windows or elements of a table, of the build of libtt."""
    attributes = emit.attributes
    params = IndexedRowsParams(
        attributes["sizes"], attributes["windows"], attributes["column"], attributes["fill_out_of_bounds"]
    )
    emit.call("rows_gather", emit.inputs, emit.results, params)


@emits("rows_scatter")
def rows_scatter(emit: Emit) -> None:
    """A table with updates written to it or joined in, of the build of libtt."""
    attributes = emit.attributes
    emit.only(
        attributes["reduce"] in COMBINES, f"expected a reduction of {', '.join(COMBINES)}, got {attributes['reduce']}"
    )
    params = IndexedRowsParams(
        attributes["sizes"], attributes["windows"], attributes["column"], combine=COMBINES[attributes["reduce"]]
    )
    emit.call("rows_scatter", emit.inputs, emit.results, params)


@emits("slice_dynamic")
def slice_dynamic(emit: Emit) -> None:
    """From the begins in the second operand to the ends in the third."""
    rank = len(emit.desc(emit.inputs[0]).shape)
    steps = tuple(emit.attributes.get("step") or (1,) * rank)
    emit.call("slice_dynamic", emit.inputs, emit.results, SliceParams((), (), steps))


@emits("embedding")
def embedding(emit: Emit) -> None:
    """Rows of a matrix (second operand), of all dims but its last two 1."""
    index, weight = emit.inputs
    shape = emit.desc(weight).shape
    emit.only(all(size == 1 for size in shape[:-2]), f"expected a matrix of weights, got {shape}")
    indices, result = emit.desc(index).shape, emit.desc(emit.results[0]).shape
    table = emit.view(weight, shape[-2:])
    if result == (*indices, shape[-1]):
        emit.call("embedding", [index, table], emit.results, GatherParams())
        return
    emit.only(result[-1:] == shape[-1:], f"expected rows of {shape[-1]} elements, got {result}")
    flat = emit.view(index, result[:-1])
    emit.call("embedding", [flat, table], emit.results, GatherParams())


@emits("gather")
def gather(emit: Emit) -> None:
    """Elements along one dim, each from where the second operand says, at its own place in the other dims."""
    shape, places = (emit.desc(tensor).shape for tensor in emit.inputs)
    dim = emit.attributes["dim"] % len(shape)
    others = tuple(each for each in range(len(shape)) if each != dim)
    alike = len(places) == len(shape) and all(places[each] == shape[each] for each in others)
    emit.only(alike, f"expected indices of {shape} but in dim {dim}, got {places}")
    params = GatherParams((), (dim,), others, others, (dim,), len(shape), (1,) * len(shape))
    emit.call("gather", emit.inputs, emit.results, params)


@emits("repeat")
def repeat(emit: Emit) -> None:
    """A whole tensor several times along dims."""
    source, target = emit.desc(emit.inputs[0]).shape, emit.desc(emit.results[0]).shape
    times = emit.attributes["repeat_dims"]
    made = tuple(n * size for n, size in zip(times, source, strict=True))
    emit.only(made == target, f"expected a result of {made}, got {target}")
    emit.call("repeat", emit.inputs, emit.results, BroadcastParams(target))
