"""Gather by tt-mlir's names: slices, repeated edges, rows of a table, and elements along one dim."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntegerAttr, TensorType, f32, i32
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.dynamic_slice import cut
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import integers
from opscope.compiler.passes.stablehlo_to_ttir.named.slices import integers as vector_of
from opscope.compiler.passes.stablehlo_to_ttir.named.slices import slice_dynamic


@dataclass(frozen=True)
class _Gather:
    """The attributes of one gather."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    start: tuple[int, ...]
    vector: int
    sizes: tuple[int, ...]


@named("stablehlo.gather")
def gather(e: Emit) -> SSAValue:
    """Tries each form. Raises StageFailure if tt-mlir has none."""
    numbers = e.spec("dimension_numbers")
    g = _Gather(
        numbers.ints("offset_dims"),
        numbers.ints("collapsed_slice_dims"),
        numbers.ints("operand_batching_dims"),
        numbers.ints("start_indices_batching_dims"),
        numbers.ints("start_index_map"),
        numbers.int("index_vector_dim"),
        e.ints("slice_sizes"),
    )
    for form in (_one_slice, _repeated_edges, _along_one_dim, _rows):
        if (result := form(e, g)) is not None:
            return result
    raise e.refuse("expected a gather of one slice, of rows or along one dim, got another, which tt-mlir has no op for")


def _one_slice(e: Emit, g: _Gather) -> SSAValue | None:
    """One index vector and no dropped dim: a slice at a start that is known, or is not."""
    value, index = e.operands
    shape = shape_of(value)
    if len(shape_of(index)) != 1 or g.vector != 0 or g.collapsed or g.batching:
        return None
    if g.offset != tuple(range(len(shape))):
        return None
    known = integers(e.op.operands[1])
    if known is not None:
        begins = [0] * len(shape)
        for dim, start in zip(g.start, known.tolist(), strict=True):
            begins[dim] = min(max(start, 0), shape[dim] - g.sizes[dim])
        ends = [begin + size for begin, size in zip(begins, g.sizes, strict=True)]
        return e.emit("slice_static", [value], e.result_type, begins=begins, ends=ends, step=[1] * len(shape))
    if g.start == tuple(range(len(shape))):
        return slice_dynamic(e, value, index, g.sizes)
    zero = vector_of(e, [0], index)
    parts = dict.fromkeys(range(len(shape)), zero)
    for place, dim in enumerate(g.start):
        parts[dim] = cut(e, index, 0, place)
    begins = e.emit("concat", [parts[dim] for dim in range(len(shape))], e.like(index, (len(shape),)), dim=0)
    return slice_dynamic(e, value, begins, g.sizes)


def _repeated_edges(e: Emit, g: _Gather) -> SSAValue | None:
    """Known indices 0 ... 0, 1, 2, ... n - 1 ... n - 1 of one dim: its first and last element, repeated around it."""
    (value, _), known = e.operands, integers(e.op.operands[1])
    shape = shape_of(value)
    if known is None or g.batching or len(g.start) != 1 or g.collapsed != g.start:
        return None
    (dim,) = g.start
    whole = all(size == n for d, (size, n) in enumerate(zip(g.sizes, shape, strict=True)) if d != dim)
    if not whole or g.offset != tuple(d for d in range(len(shape)) if d != dim):
        return None
    line, last = known.ravel(), shape[dim] - 1
    front = int((line == 0).sum()) - 1
    back = int((line == last).sum()) - 1 if last else 0
    if front < 0 or back < 0 or front + back == 0:
        return None
    if line.tolist() != [0] * front + list(range(shape[dim])) + [last] * back:
        return None
    parts = [value]
    for place, count, back_edge in ((0, front, False), (last, back, True)):
        if count:
            begins, ends = [0] * len(shape), list(shape)
            begins[dim], ends[dim] = place, place + 1
            sizes = tuple(1 if d == dim else n for d, n in enumerate(shape))
            edge = e.emit(
                "slice_static", [value], e.like(value, sizes), begins=begins, ends=ends, step=[1] * len(shape)
            )
            counts = [count if d == dim else 1 for d in range(len(shape))]
            kind = e.like(value, tuple(n * c for n, c in zip(sizes, counts, strict=True)))
            copies = e.emit("repeat", [edge], kind, repeat_dimensions=counts)
            parts = [*parts, copies] if back_edge else [copies, *parts]
    return e.emit("concat", parts, e.result_type, dim=dim)


def _along_one_dim(e: Emit, g: _Gather) -> SSAValue | None:
    """Batched: `gather` along the dim that is indexed, by an index for each element of the result."""
    if not g.batching:
        return None
    value, index = e.operands
    shape, places = shape_of(value), shape_of(index)
    if len(g.start) != 1 or len(g.batching) != 1 or g.vector != len(places) - 1 or places[-1] != 1:
        return None
    (dim,), (batch,), (index_batch,) = g.start, g.batching, g.index_batching
    rest = [d for d in range(len(shape)) if d not in (dim, batch)]
    if g.sizes[dim] != 1 or any(g.sizes[d] != shape[d] for d in rest) or index_batch != 0 or (batch, dim) != (0, 1):
        return None
    count = prod(places[1:-1])
    index = e.reshape(e.reshape(index, places[:-1]), [places[0], count])
    if rest:
        index = e.reshape(index, [places[0], count, *[1] * len(rest)])
        index = e.broadcast(index, [places[0], count, *(shape[d] for d in rest)])
    kind = e.like(value, (shape[0], count, *(shape[d] for d in rest)))
    result = e.emit("gather", [value, index], kind, dim=1)
    batches = [d for d in range(len(e.result_shape)) if d not in g.offset]
    kept = [d for d in g.offset if d - len(batches) < len(e.result_shape)]
    if sorted((*batches, *kept)) != [*batches, *kept]:
        return None
    return e.reshape(result, e.result_shape)


def _rows(e: Emit, g: _Gather) -> SSAValue | None:
    """The operand as a table, whose rows are read: `embedding` of floats, `gather` of integers."""
    value, index = e.operands
    shape, places = shape_of(value), shape_of(index)
    if g.batching or (len(places) == 1 and g.vector == 0 and len(g.start) > 1):
        return None
    # An index into a dim that is taken whole can only be 0.
    read = [d for d in g.start if g.sizes[d] != shape[d]] or list(g.start[:1])
    rest = [d for d in range(len(shape)) if d not in read]
    if any(g.sizes[d] != shape[d] for d in rest):
        return None
    table = e.permute(value, [*read, *rest])
    width = prod(shape[d] for d in rest)
    table = e.reshape(table, [prod(shape[d] for d in read), width])
    batch = [n for d, n in enumerate(places) if d != g.vector]
    window = [g.sizes[d] for d in read]
    index = _row_numbers(e, index, g, read, [shape[d] for d in read], batch)
    expanded = prod(window) > 1
    if expanded:
        index = _with_window(e, index, [shape[d] for d in read], window)
    elif hasattr(e.result_type.element_type, "width") and len(read) == 1:
        index = _clamped(e, index, shape[read[0]] - 1)
    rows = _read(e, table, index, width)
    # Each dim of the rows: the number of a batch, below 0, or a dim of the operand.
    own = [d for d in read if d not in g.collapsed]
    batches = [at - len(batch) for at in range(len(batch))]
    dims = [*(own + batches if expanded else batches + own), *(d for d in rest if d not in g.collapsed)]
    rows = e.reshape(rows, [batch[d] if d < 0 else g.sizes[d] for d in dims])
    places = dict(zip(g.offset, sorted(d for d in dims if d >= 0), strict=True))
    places |= dict(zip((d for d in range(len(e.result_shape)) if d not in g.offset), batches, strict=True))
    return e.permute(rows, [dims.index(places[d]) for d in range(len(e.result_shape))])


def _row_numbers(e: Emit, index: SSAValue, g: _Gather, read: list[int], sizes: list[int], batch: list[int]) -> SSAValue:
    """Returns the numbers of rows, [batch] or, of rank 2 at most, as the indices have them."""
    places = shape_of(index)
    if g.vector < len(places) and g.vector != len(places) - 1 and len(g.start) > 1 and len(read) > 1:
        index = e.permute(index, [*(d for d in range(len(places)) if d != g.vector), g.vector])
    if len(read) > 1:
        strides = [prod(sizes[at + 1 :]) for at in range(len(read))]
        if len(read) < len(g.start):
            last = len(shape_of(index)) - 1
            columns = [cut(e, index, last, g.start.index(d)) for d in read]
            joined = e.like(index, (*shape_of(index)[:-1], len(read)))
            index = e.emit("concat", columns, joined, dim=last)
        index = e.typecast(index, f32)
        kind_of_places = TensorType(f32, [len(read), 1])
        data = np.asarray(strides, np.float32).tobytes()
        column = e.emit("constant", [], kind_of_places, value=DenseIntOrFPElementsAttr(kind_of_places, BytesAttr(data)))
        result = e.like(index, (*shape_of(index)[:-1], 1))
        index = e.emit("matmul", [index, column], result, transpose_a=False, transpose_b=False)
    elif len(g.start) > 1:
        index = cut(e, index, g.vector, g.start.index(read[0]))
    if len(shape_of(index)) != 2:
        index = e.reshape(index, [1, prod(batch)])
    return index


def _with_window(e: Emit, index: SSAValue, sizes: list[int], window: list[int]) -> SSAValue:
    """Adds to each row number those of the window that starts there: [window, count]."""
    count = prod(shape_of(index))
    strides = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
    grid = np.indices(window).reshape(len(window), -1)
    offsets = (grid * np.asarray(strides)[:, None]).sum(0)
    index = e.reshape(index, [1, count])
    whole = e.like(index, (len(offsets), count))
    kind: Any = e.like(index, (len(offsets), 1))
    numbers = offsets.astype(np.float32 if element_of(index) == "f32" else f"<i{_bytes(index)}")
    step = e.emit("constant", [], kind, value=DenseIntOrFPElementsAttr(kind, BytesAttr(numbers.tobytes())))
    return e.emit("add", [e.broadcast(index, shape_of_type(whole)), e.broadcast(step, shape_of_type(whole))], whole)


def shape_of_type(kind: TensorType) -> tuple[int, ...]:
    """Returns the shape of a tensor type."""
    return tuple(kind.get_shape())


def _bytes(value: SSAValue) -> int:
    return int(element_of(value).lstrip("uis")) // 8


def _clamped(e: Emit, index: SSAValue, last: int) -> SSAValue:
    """StableHLO clamps where a slice starts; the op that reads does not."""
    return e.emit("clamp_scalar", [index], index.type, min=IntegerAttr(0, i32), max=IntegerAttr(last, i32))


def _read(e: Emit, table: SSAValue, index: SSAValue, width: int) -> SSAValue:
    """Emits `embedding`, or for integers, which it would round, `gather` along the first dim."""
    shape = shape_of(index)
    if not hasattr(e.result_type.element_type, "width"):
        return e.emit("embedding", [index, table], e.like(table, (*shape, width)))
    count = prod(shape)
    index = e.broadcast(e.reshape(index, [count, 1]), [count, width])
    return e.emit("gather", [table, index], e.like(table, (count, width)), dim=0)
