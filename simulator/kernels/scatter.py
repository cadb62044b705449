"""`scatter` in StableHLO's general form: updates joined into places that are known only at run time.

Updates that meet at one place are joined in their row-major order: all first ones at once, then all second ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opscope.compiler.target.program import ScatterParams
from opscope.compiler.target.rounding import quantise
from opscope.simulator.images import pack
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.registry import Body, Call, Images, bodies_of, kernel, params_of

COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
"""Kernels that a scatter may name: two operands, one result of the same type."""


def places(params: ScatterParams, shape: Sequence[int], indices: np.ndarray, updates: Sequence[int]) -> np.ndarray:
    """Row-major place in an operand of `shape` of every update, -1 where it lies outside."""
    indices = indices.astype(np.int64)
    vector = params.index_vector_dim
    if vector == indices.ndim:
        indices = indices[..., np.newaxis]
    indices = np.moveaxis(indices, vector, -1)
    batch = [d for d in range(len(updates)) if d not in params.update_window_dims]
    dropped = {*params.inserted_window_dims, *params.input_batching_dims}
    windowed = [d for d in range(len(shape)) if d not in dropped]

    def along(values: np.ndarray, dim: int) -> np.ndarray:
        return values.reshape([-1 if d == dim else 1 for d in range(len(updates))])

    place = np.zeros(tuple(updates), np.int64)
    inside = np.ones(tuple(updates), bool)
    for dim, size in enumerate(shape):
        at: np.ndarray = np.zeros((1,) * len(updates), np.int64)
        if dim in params.scatter_dims_to_operand_dims:
            start = indices[..., params.scatter_dims_to_operand_dims.index(dim)]
            at = at + start.reshape([updates[d] if d in batch else 1 for d in range(len(updates))])
        if dim in params.input_batching_dims:
            own = params.scatter_indices_batching_dims[params.input_batching_dims.index(dim)]
            # A dim of the indices after the index vector's is one earlier among the batch dims.
            own = batch[own - (own > vector)]
            at = at + along(np.arange(updates[own]), own)
        if dim in windowed:
            own = params.update_window_dims[windowed.index(dim)]
            at = at + along(np.arange(updates[own]), own)
        inside &= (at >= 0) & (at < size)
        place = place * size + at
    return np.where(inside, place, -1).ravel()


def rounds(place: np.ndarray) -> Iterator[np.ndarray]:
    """Splits the updates' numbers so that no part has a place twice and later updates are in later parts."""
    valid = np.flatnonzero(place >= 0)
    order = valid[np.argsort(place[valid], kind="stable")]
    if not order.size:
        return
    fresh = np.flatnonzero(np.r_[True, place[order][1:] != place[order][:-1]])
    rank = np.arange(order.size) - np.repeat(fresh, np.diff(np.r_[fresh, order.size]))
    by_rank = order[np.argsort(rank, kind="stable")]
    yield from np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


def join_into(flat: Images, place: np.ndarray, updates: Images, combine: str, body: Body | None, call: Call) -> None:
    """Joins flat updates into flat operands, in place."""
    if combine == "update":
        valid = place >= 0
        for x, new in zip(flat, updates, strict=True):
            x[place[valid]] = new[valid]  # of equal places NumPy keeps the last
        return
    if combine:
        function = COMBINE[combine]
        exact = flat[0].dtype.kind != "f" or call.numerics.dst_format == "Float32"
        if exact:
            valid = place >= 0
            function.at(flat[0], place[valid], updates[0][valid])
            return
        narrow = call.numerics.dst_format

        def join(old: Images, new: Images) -> Images:
            return [quantise(function(old[0], new[0]), narrow)]

    else:
        assert body is not None
        applied = body

        def join(old: Images, new: Images) -> Images:
            return applied(*old, *new)

    for part in rounds(place):
        at = place[part]
        for x, new in zip(flat, join([x[at] for x in flat], [u[part] for u in updates]), strict=True):
            x[at] = new


def _row_bytes(call: Call) -> int:
    """A page each of operand, indices and updates, double-buffered."""
    return 2 * 3 * 4096


@kernel("scatter", ScatterParams, unit="move", arity=(3, 1024), l1_bytes=_row_bytes)
def scatter(images: Images, call: Call) -> Images:
    """Operands with updates joined in at start indices; updates that fall outside are dropped one by one.

    Elements that no update reaches keep their bits; the others are computed and packed here.
    """
    params = params_of(call, ScatterParams)
    count = len(call.outputs)
    own = 2 * count + 1
    place = places(params, images[0].shape, images[count], images[count + 1].shape)
    results = [np.array(x).ravel() for x in images[:count]]
    if params.combine == "update":
        join_into(results, place, [u.ravel() for u in images[count + 1 : own]], "update", None, call)
    else:
        values = operands(images, call)
        bodies = bodies_of(call, values, own)
        flat = [np.array(x).ravel() for x in values[:count]]
        updates = [u.ravel() for u in values[count + 1 : own]]
        join_into(flat, place, updates, params.combine, bodies[0] if bodies else None, call)
        reached = np.unique(place[place >= 0])
        for result, x, desc in zip(results, flat, call.outputs, strict=True):
            result[reached] = pack(x[reached], desc, dst_format=call.numerics.dst_format)
    return [x.reshape(old.shape) for x, old in zip(results, images, strict=False)]
