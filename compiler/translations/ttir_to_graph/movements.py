"""Lowers ops that only move elements: TMs where these can, else pickers (`moves.py`) and splices of whole tiles.

Each works dim by dim, so that what changes rows or matrices is one picker and what changes columns another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from opscope.compiler.buda.graph import Slices
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.known_numbers import known_array
from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import TILE
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout, broadcast, permuted, regrouped
from opscope.compiler.translations.ttir_to_graph.moves import movable, moved, permuted_by_steps, whole
from opscope.compiler.translations.ttir_to_graph.on_device import on_device, relaid
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.values import DeviceValue, Value

MOST_OPERANDS = 8
"""Operands of one op, as many as a core has input streams."""


def reshape(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a reshape: nothing where the groups stay."""
    value = device_value(lowering, operands[0])
    layout = value.layout.reshaped(dims)
    if layout is not None:
        return DeviceValue(value.operand, layout)
    layout = min((Layout.matrix(dims), flat(dims)), key=lambda candidate: _cost_of_reshape(value.layout, candidate))
    return DeviceValue(relaid(lowering, value, layout), layout)


def _cost_of_reshape(current: Layout, layout: Layout) -> int:
    """Returns the tiles of a layout; those of one that takes pickers count double."""
    return layout.tiles.tiles * (1 if regrouped(current.sizes, layout.sizes) is not None else 2)


def permute(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a permutation of dims."""
    value, order = device_value(lowering, operands[0]), ints(op.properties["permutation"])
    permutation = permuted(value.layout, order)
    if permutation is None:
        layout = Layout.matrix(dims)
        return DeviceValue(permuted_by_steps(lowering, value.operand, value.layout, order, layout), layout)
    layout, tms = permutation
    return DeviceValue(Operand(value.operand.producer, (*value.operand.tms, *tms)), layout)


def repeat(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a broadcast: TMs repeat whole groups, pickers what is part of one."""
    value = device_value(lowering, operands[0])
    if len(value.layout.dims) != len(dims):
        lead = (1,) * (len(dims) - len(value.layout.dims))
        value = device_value(lowering, reshape(lowering, op, [value], (*lead, *value.layout.dims)))
    if broadcast(value.layout, value.layout.like(dims)) is None:
        layout = min(_groupings(value.layout), key=lambda candidate: _cost_of_repeat(value.layout, candidate, dims))
        value = DeviceValue(relaid(lowering, value, layout), layout)
    for group in "zrc":
        before, after = value.layout, _in_group(value.layout, group, dims)
        if broadcast(before, after) is None:
            value = _by_index(lowering, value, after, lambda ids, after=after: np.broadcast_to(ids, after.dims))
    layout = value.layout.like(dims)
    tms = broadcast(value.layout, layout)
    assert tms is not None
    return DeviceValue(Operand(value.operand.producer, (*value.operand.tms, *tms)), layout)


def _groupings(layout: Layout) -> list[Layout]:
    """Returns every way to group the layout's dims, itself first."""
    rank = len(layout.dims)
    return [layout, *(Layout(layout.dims, r, c) for c in range(rank + 1) for r in range(c + 1))]


def _cost_of_repeat(current: Layout, layout: Layout, dims: Dims) -> tuple[int, int]:
    """Returns the tiles of the result of a broadcast in a layout, and the pickers that it takes at least."""
    partial = sum(broadcast(layout, _in_group(layout, group, dims)) is None for group in "zrc")
    return layout.like(dims).tiles.tiles, partial + (regrouped(current.sizes, layout.sizes) is None)


def flat(dims: Dims) -> Layout:
    """Returns the layout with all dims but the last as rows."""
    return Layout(dims, 0, max(0, len(dims) - 1))


def _in_group(layout: Layout, group: str, dims: Dims) -> Layout:
    """Returns the layout with those of `dims` that are in the group."""
    return layout.like(
        tuple(
            new if layout.group(d) == group else old for d, (old, new) in enumerate(zip(layout.dims, dims, strict=True))
        )
    )


def take(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a slice: whole tiles by a splice, all else by pickers."""
    value = device_value(lowering, operands[0])
    begins, ends, steps = (ints(op.properties[key]) for key in ("begins", "ends", "step"))
    layout = value.layout.like(dims)
    if dims == value.layout.dims:
        return value
    if _whole_tiles(value.layout, begins, ends, steps):
        slices = Slices(value.layout.dims, begins, ends, steps)
        out = lowering.node("splice", [value.operand], layout.sizes, shape=layout.tiles, slices=slices)
        return DeviceValue(out, layout)
    cut = tuple(slice(b, e, s) for b, e, s in zip(begins, ends, steps, strict=True))
    return _by_dims(lowering, value, dims, lambda ids, d: ids[(slice(None),) * d + (cut[d],)])


def _whole_tiles(layout: Layout, begins: Dims, ends: Dims, steps: Dims) -> bool:
    """Whether a slice takes whole tiles: each cut row or column dim has only whole tiles below it."""
    for d, (size, b, e, s) in enumerate(zip(layout.dims, begins, ends, steps, strict=True)):
        if (b, e, s) == (0, size, 1) or layout.group(d) == "z":
            continue
        stop = layout.cols if layout.group(d) == "r" else len(layout.dims)
        below = prod(layout.dims[d + 1 : stop])
        aligned = all(n * below % TILE == 0 for n in (b, e, size)) and s == 1
        if not (aligned or below % TILE == 0):
            return False
    return True


def reverse(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a reversal of some dims."""
    turned = ints(op.properties["dimensions"])
    return _by_dims(
        lowering, device_value(lowering, operands[0]), dims, lambda ids, d: np.flip(ids, d) if d in turned else ids
    )


def pad(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers padding with zeros, also between elements; negative padding cuts. Other values are added before."""
    fill = float(op.read().get("value", 0)) if isinstance(op, RowOp) else 0.0
    if fill or len(operands) > 1:
        raise StageFailure("ttir-to-graph", op.name, f"padding with {fill or op.operands[-1].type}", kind="notimpl")
    edges = ints(op.properties["padding"])
    inner = ints(op.properties["interior"]) if "interior" in op.properties else (0,) * len(dims)

    def padded(ids: np.ndarray, d: int) -> np.ndarray:
        low, high, between = edges[2 * d], edges[2 * d + 1], inner[d]
        size = ids.shape[d]
        spread = np.full((*ids.shape[:d], (size - 1) * (between + 1) + 1, *ids.shape[d + 1 :]), -1)
        spread[(slice(None),) * d + (slice(None, None, between + 1),)] = ids
        widths = [(0, 0)] * ids.ndim
        widths[d] = (max(0, low), max(0, high))
        spread = np.pad(spread, widths, constant_values=-1)
        return spread[(slice(None),) * d + (slice(max(0, -low), spread.shape[d] - max(0, -high)),)]

    return _by_dims(lowering, device_value(lowering, operands[0]), dims, padded)


def concat(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a concatenation: a splice puts whole tiles of all operands together, a picker drops what fills them."""
    dim = ints(op.properties["dim"])[0] % len(dims)
    sizes = [(value.layout.dims if isinstance(value, DeviceValue) else value.dims)[dim] for value in operands]
    layouts = [value.layout for value in operands if isinstance(value, DeviceValue)]
    layout = (layouts[0] if layouts else Layout.matrix(dims)).like(dims)
    parts: list[tuple[Operand, Layout]] = []
    for value, size in zip(operands, sizes, strict=True):
        own = layout.like((*dims[:dim], size, *dims[dim + 1 :]))
        if prod(own.dims):
            parts.append((on_device(lowering, value, own), own))
    group = "zrc".index(layout.group(dim))
    sizes_of_parts = [
        tuple(whole(n) if group and axis == group else n for axis, n in enumerate(own.sizes)) for _, own in parts
    ]
    operand = stacked(lowering, [part for part, _ in parts], sizes_of_parts, layout.sizes, "zrc"[group])
    total = tuple(sum(h[axis] for h in sizes_of_parts) if axis == group else n for axis, n in enumerate(layout.sizes))
    start, ids = 0, np.arange(prod(total)).reshape(total)
    pieces = []
    for (_, own), h in zip(parts, sizes_of_parts, strict=True):
        place = [slice(0, n) for n in own.sizes]
        place[group] = slice(start, start + own.sizes[group])
        pieces.append(ids[tuple(place)].reshape(own.dims))
        start += h[group]
    index = np.concatenate(pieces, dim).reshape(layout.sizes)
    return DeviceValue(moved(lowering, operand, (total[0], total[1], total[2]), index), layout)


def stacked(
    lowering: State, parts: Sequence[Operand], extents_of: Sequence[tuple[int, ...]], sizes: Dims, group: str
) -> Operand:
    """Returns one operand of whole tiles of `parts` one after another along a group, by as many splices as it takes.

    `held` are the elements of each along z, rows and columns, of whole tiles along the group; `sizes` those of the
    result, of which the group's is not read.
    """
    parts, extents_of = list(parts), list(extents_of)
    axis = "zrc".index(group)
    while len(parts) > 1:
        taken, parts = parts[:MOST_OPERANDS], parts[MOST_OPERANDS:]
        extents, extents_of = extents_of[:MOST_OPERANDS], extents_of[MOST_OPERANDS:]
        total = [sum(h[axis] for h in extents) if d == axis else n for d, n in enumerate(sizes)]
        elements = (total[0], total[1], total[2])
        shape = Layout(elements, 1, 2).tiles
        parts.insert(0, lowering.node("splice", taken, elements, shape=shape, stacked=group))
        extents_of.insert(0, elements)
    return parts[0]


def _by_dims(
    lowering: State, value: DeviceValue, dims: Dims, change: Callable[[np.ndarray, int], np.ndarray]
) -> DeviceValue:
    """Changes an index dim by dim: first those of rows and z together, then those of columns."""
    for groups in ("zr", "c"):
        chosen = [d for d in range(len(dims)) if value.layout.group(d) in groups]
        after = value.layout.like(tuple(dims[d] if d in chosen else n for d, n in enumerate(value.layout.dims)))

        def changed(ids: np.ndarray, chosen: list[int] = chosen) -> np.ndarray:
            for d in chosen:
                ids = change(ids, d)
            return ids

        value = _by_index(lowering, value, after, changed)
    return value


def _by_index(
    lowering: State, value: DeviceValue, after: Layout, change: Callable[[np.ndarray], np.ndarray]
) -> DeviceValue:
    """Moves elements as `change` moves their numbers, into the layout `after`."""
    ids = change(np.arange(prod(value.layout.dims)).reshape(value.layout.dims))
    return DeviceValue(moved(lowering, value.operand, value.layout.sizes, ids.reshape(after.sizes)), after)


def exact(lowering: State, operand: Operand, layout: Layout) -> Operand:
    """Returns the operand without the zeros that fill its tiles after TMs, for an op that reads all along a dim."""
    from opscope.compiler.buda.graph_to_program import elements_after

    extent = lowering.builder.nodes[operand.producer].extent
    if elements_after(extent, operand.tms) == layout.sizes:
        return operand
    return lowering.node("nop", [operand], layout.sizes)


def device_value(lowering: State, value: Value) -> DeviceValue:
    """Returns the value on the device; one of the host in the layout that takes fewest tiles."""
    if isinstance(value, DeviceValue):
        return value
    layout = min((Layout.matrix(value.dims), flat(value.dims)), key=lambda layout_of: layout_of.tiles.tiles)
    return DeviceValue(on_device(lowering, value, layout), layout)


def gather(lowering: State, op: Operation, operands: list[Value], dims: Dims) -> Value:
    """Lowers a gather whose indices are known before a run: one picker, in any grouping of dims that allows it."""
    assert isinstance(op, RowOp)
    indices = known_array(op.operands[1])
    if indices is None:
        raise StageFailure("ttir-to-graph", op.name, "indices that only a run knows, not of whole rows", kind="notimpl")
    value = device_value(lowering, operands[0])
    ids = gathered_elements(value.layout.dims, indices, op.read(), dims)
    ways = product(_groupings(value.layout), _groupings(Layout.matrix(dims)))
    cheapest = sorted(ways, key=lambda way: way[1].tiles.tiles + _cost_of_reshape(value.layout, way[0]))
    fitting = ((b, a) for b, a in cheapest if movable(b.sizes, ids.reshape(a.sizes)))
    before, after = next(fitting, (None, None))
    if before is None or after is None:
        raise StageFailure("ttir-to-graph", op.name, f"no picker takes {value.layout.dims} to {dims}", kind="notimpl")
    operand = relaid(lowering, value, before)
    return DeviceValue(moved(lowering, operand, before.sizes, ids.reshape(after.sizes)), after)


LOWERINGS = {
    "broadcast": repeat,
    "concat": concat,
    "gather": gather,
    "pad": pad,
    "permute": permute,
    "reshape": reshape,
    "reverse": reverse,
    "slice_static": take,
}
"""ttir op -> its lowering."""

__all__ = ["LOWERINGS", "exact", "relaid", "stacked"]


def gathered_elements(operand: Dims, indices: np.ndarray, attrs: Mapping[str, Any], result: Dims) -> np.ndarray:
    """Returns the number, in row-major order, of the operand's element that each element of the result is.

    Start indices are clamped, so that every slice lies within the operand.
    """
    batch = [d for d in range(len(result)) if d not in attrs["offset_dims"]]
    vector = attrs["index_vector_dim"]
    starts = np.moveaxis(indices, vector, -1) if vector < indices.ndim else indices[..., None]
    starts = starts.astype(np.int64)
    at = np.indices(result)
    start_of_batch = starts[tuple(at[d] for d in batch)]
    places = [np.zeros(result, np.int64) for _ in operand]
    for column, dim in enumerate(attrs["start_index_map"]):
        most = operand[dim] - attrs["slice_sizes"][dim]
        places[dim] = places[dim] + np.clip(start_of_batch[..., column], 0, most)
    left_out = (*attrs["collapsed_slice_dims"], *attrs["operand_batching_dims"])
    kept = [d for d in range(len(operand)) if d not in left_out]
    for dim, offset in zip(kept, attrs["offset_dims"], strict=True):
        places[dim] = places[dim] + at[offset]
    # Batching dims of the operand go with those of the indices, whose own dims lack the index vector.
    of_indices = [d for d in range(indices.ndim) if d != vector]
    for dim, other in zip(attrs["operand_batching_dims"], attrs["start_indices_batching_dims"], strict=True):
        places[dim] = at[batch[of_indices.index(other)]]
    return np.ravel_multi_index(places, operand) if operand else np.zeros(result, np.int64)
