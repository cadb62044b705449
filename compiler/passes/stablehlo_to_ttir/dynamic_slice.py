"""Slices at a start known only at run time: a gather reads the slice, a shifted update and a mask write it.

A write of one position, or of the first ones, into a cache that is an argument is the op of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType, i1, i32
from xdsl.ir import BlockArgument, SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.dialects.ttir_values import splat
from opscope.compiler.ops.shapes import Shape, shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers

CACHE_DIM = 2
"""The dim of a cache in which positions lie (tt-mlir)."""


def vector(e: Emit, starts: Sequence[SSAValue]) -> SSAValue:
    """Returns the start scalars as one index vector."""
    rows = [e.reshape(start, [1]) for start in starts]
    if len({element_of(row) for row in rows}) > 1:
        raise e.refuse("expected start indices of one type, got several")
    if len(rows) == 1:
        return rows[0]
    return e.emit("concat", rows, e.like(rows[0], (len(rows),)), dim=0)


def read_slice(e: Emit, value: SSAValue, start: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Reads one slice of `value`; gather clamps the start as StableHLO requires for dynamic slices."""
    dims = list(range(len(sizes)))
    return e.emit(
        "gather",
        [value, start],
        e.like(value, tuple(sizes)),
        offset_dims=dims,
        collapsed_slice_dims=[],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=dims,
        index_vector_dim=0,
        slice_sizes=sizes,
    )


def cut(e: Emit, value: SSAValue, dim: int, place: int, size: int = 1) -> SSAValue:
    """Returns `size` elements of one dim from `place` on; the value itself if it has no more."""
    shape = shape_of(value)
    if shape[dim] == size:
        return value
    begins, ends = [0] * len(shape), list(shape)
    begins[dim], ends[dim] = place, place + size
    kind = e.like(value, tuple(end - begin for begin, end in zip(begins, ends, strict=True)))
    return e.emit("slice_static", [value], kind, begins=begins, ends=ends, step=[1] * len(shape))


@lowers("stablehlo.dynamic_slice")
def dynamic_slice(e: Emit) -> SSAValue:
    """Emits a gather of one slice."""
    value, *starts = e.operands
    return read_slice(e, value, vector(e, starts), e.ints("slice_sizes")) if starts else value


@lowers("stablehlo.dynamic_update_slice")
def dynamic_update_slice(e: Emit) -> SSAValue:
    """Writes the update at `start`, through a shifted read and a mask.

    The update is padded by `room` = size - update size on both sides and read from `room - start` on, so that it lies
    at `start`. Clamping this read to [0, room] clamps `start` as the specification requires.
    """
    value, update, *starts = e.operands
    shape, sizes = shape_of(value), shape_of(update)
    if not starts or 0 in sizes:
        return value if 0 in sizes else update
    if (written := _cache_write(e, value, update, starts)) is not None:
        return written
    room = [n - size for n, size in zip(shape, sizes, strict=True)]
    start = _as_i32(e, vector(e, starts), max(shape))
    ends = [e.full([1], i32, n) for n in room]
    last = ends[0] if len(ends) == 1 else e.emit("concat", ends, TensorType(i32, [len(ends)]), dim=0)
    origin = e.emit("subtract", [last, start], start.type)
    ones = e.full(sizes, i1, True)
    shifted = read_slice(e, _padded(e, update, room), origin, shape)
    landed = read_slice(e, _padded(e, ones, room), origin, shape)
    return e.emit("where", [landed, shifted, value], e.result_type)


def _as_i32(e: Emit, start: SSAValue, most: int) -> SSAValue:
    """Returns starts as i32, in which a large one must not turn negative, or small."""
    kind: Any = start.type
    if element_of(start) == "i64" or element_of(start).startswith("ui"):
        high, low = (e.full(shape_of(start), kind.element_type, n) for n in (most, 0))
        start = e.emit("clamp_tensor", [start, low, high], kind)
    return e.typecast(start, i32)


def _clamped(e: Emit, start: SSAValue, last: int) -> SSAValue:
    """Returns a start as i32 of one element, in [0, last]: `update_cache` writes nothing at an index beyond."""
    if (number := splat(start)) is not None:
        return e.full([1], i32, min(max(int(number), 0), last))
    start = _as_i32(e, e.reshape(start, [1]), last)
    return e.emit("clamp_tensor", [start, e.full([1], i32, 0), e.full([1], i32, last)], start.type)


def _cache_write(e: Emit, value: SSAValue, update: SSAValue, starts: Sequence[SSAValue]) -> SSAValue | None:
    """Writes into an argument (batch, heads, positions, width): `update_cache` of one position, `fill_cache` of the
    first ones. None for any other write. A start where the update is as long as the cache says nothing: it is clamped.
    """
    shape, sizes = shape_of(value), shape_of(update)
    if not isinstance(value, BlockArgument) or len(shape) != 4 or element_of(value)[0] in "iu":
        return None
    if any(n != size for dim, (n, size) in enumerate(zip(shape, sizes, strict=True)) if dim != CACHE_DIM):
        return None
    if sizes[CACHE_DIM] == 1 < shape[CACHE_DIM]:
        place = _clamped(e, starts[CACHE_DIM], shape[CACHE_DIM] - 1)
        return e.emit("update_cache", [value, update, place], e.result_type, batch_offset=0)
    if splat(starts[CACHE_DIM]) == 0:
        return e.emit("fill_cache", [value, update], e.result_type, batch_offset=0)
    return None


def _padded(e: Emit, value: SSAValue, room: Sequence[int]) -> SSAValue:
    """Pads `value` with zeros on both sides of each dim."""
    shape: Shape = tuple(n + 2 * extra for n, extra in zip(shape_of(value), room, strict=True))
    padding = [extra for extra in room for _ in ("low", "high")]
    return e.emit("pad", [value], e.like(value, shape), padding=padding, value=0.0)
