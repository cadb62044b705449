"""`gather` in StableHLO's general form and `embedding`, as fancy indexing with broadcast indices."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import GatherParams
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


def _row_bytes(call: Call) -> int:
    """Two row-major rows of the operand's last dim (the unit in which rows are fetched from DRAM), and the indices."""
    params = params_of(call, GatherParams)
    table = call.inputs[0] if params.slice_sizes else call.inputs[1]
    width = params.slice_sizes[-1] if params.slice_sizes else table.shape[-1]
    return 2 * int(width * FORMATS[table.data_format].datum_bytes()) + 2 * 4096


@kernel("gather", GatherParams, unit="move", arity=2, l1_bytes=_row_bytes, picks=True)
def gather(images: Images, call: Call) -> np.ndarray:
    """Slices of operand at start indices; starts are clamped so that every slice lies inside."""
    params, (operand, starts) = params_of(call, GatherParams), images
    starts = starts.astype(np.int64)
    if params.index_vector_dim == starts.ndim:
        starts = starts[..., np.newaxis]
    starts = np.moveaxis(starts, params.index_vector_dim, -1)
    batch = starts.shape[:-1]
    dropped = {*params.collapsed_slice_dims, *params.operand_batching_dims}
    offsets = [d for d in range(operand.ndim) if d not in dropped]
    # A dim that every slice has whole is copied as it is: its start is clamped to 0.
    whole = [d for d in offsets if params.slice_sizes[d] == operand.shape[d]]
    windows = [d for d in offsets if d not in whole]
    rank = len(batch) + len(windows)
    indexed = [d for d in range(operand.ndim) if d not in whole]
    indices: list[np.ndarray] = []
    for dim in indexed:
        size = params.slice_sizes[dim]
        index = np.zeros((1,) * rank, np.int64)
        if dim in params.start_index_map:
            start = starts[..., params.start_index_map.index(dim)]
            start = np.clip(start, 0, operand.shape[dim] - size)
            index = index + start.reshape((*batch, *(1,) * len(windows)))
        if dim in params.operand_batching_dims:
            where = params.start_indices_batching_dims[params.operand_batching_dims.index(dim)]
            # A dim of start_indices after the index vector's is one earlier among the batch dims.
            where -= where > params.index_vector_dim
            index = index + np.arange(batch[where]).reshape([-1 if d == where else 1 for d in range(rank)])
        if dim in windows:
            place = len(batch) + windows.index(dim)
            index = index + np.arange(size).reshape([-1 if d == place else 1 for d in range(rank)])
        indices.append(index)
    result = operand.transpose(indexed + whole)
    if len(indices) == 1:
        result = result.take(indices[0], axis=0)
    elif indices:
        result = result[tuple(indices)]
    shape = (*batch, *(params.slice_sizes[d] for d in windows + whole))
    if result.shape != shape:
        result = np.broadcast_to(result, shape)
    # Batch dims take the places that offset_dims leave free.
    taken = iter(len(batch) + (windows + whole).index(dim) for dim in offsets)
    free = iter(range(len(batch)))
    order = [next(taken) if dim in params.offset_dims else next(free) for dim in range(len(shape))]
    return result if order == sorted(order) else result.transpose(order)


@kernel("embedding", GatherParams, unit="move", arity=2, l1_bytes=_row_bytes, picks=True)
def embedding(images: Images, call: Call) -> np.ndarray:
    """Rows of a table (second operand) at indices (first operand), clamped into the table."""
    indices, table = images
    return table.take(np.clip(indices.astype(np.int64), 0, table.shape[0] - 1), axis=0)
