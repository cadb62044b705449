"""`rows_gather` and `rows_scatter`: rows, windows or elements of a table at places that are known only at run time.

libtt's build of tt-metal has them, and tt-mlir lowers StableHLO's gather, scatter, reverse and dynamic_update_slice to
them. The cores that move data do the arithmetic of a scatter, in float32, and round each sum to the table's format.
"""

from __future__ import annotations

import math

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import IndexedRowsParams
from opscope.compiler.target.rounding import quantise
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of
from opscope.simulator.kernels.scatter import COMBINE, rounds

PAGE = 4096
"""Bytes of a page of indices, or of a row, that a core holds at a time."""


def _buffers(call: Call) -> int:
    """Pages of the table and of the indices, double-buffered."""
    return 2 * 3 * PAGE


def _places(params: IndexedRowsParams, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row-major places in `sizes` of the windows at all positions, moved inside, and whether each needed no moving.

    Both are (batches of the indices, positions * elements of a window).
    """
    sizes, windows = np.array(params.sizes, np.int64), np.array(params.windows, np.int64)
    if indices.ndim != 3 or indices.shape[1] != sizes.size:
        raise ValueError(f"indices of shape (batches, {sizes.size}, positions), got {indices.shape}")
    asked = indices.astype(np.int64)
    start = np.clip(asked, 0, (sizes - windows)[:, np.newaxis])
    inside = (start == asked).all(axis=1)
    strides = np.array([math.prod(params.sizes[n + 1 :]) for n in range(sizes.size)], np.int64)
    first = (start * strides[:, np.newaxis]).sum(axis=1)
    within = (np.indices(params.windows).reshape(sizes.size, -1) * strides[:, np.newaxis]).sum(axis=0)
    places = first[..., np.newaxis] + within
    return places.reshape(len(first), -1), np.repeat(inside, within.size, axis=-1)


def _as_rows(table: np.ndarray, params: IndexedRowsParams) -> np.ndarray:
    """A table as (batches, places, elements at a place)."""
    batches, count = table.shape[0], math.prod(params.sizes)
    rows = math.prod(params.sizes[:-1]) if params.column else count
    if table.ndim < 2 + params.column or table.shape[1] != rows or (params.column and table.shape[2] * rows != count):
        raise ValueError(f"a table with rows for {params.sizes}, got shape {table.shape}")
    return table.reshape(batches, count, -1)


@kernel("rows_gather", IndexedRowsParams, unit="move", arity=2, l1_bytes=_buffers, picks=True)
def rows_gather(images: Images, call: Call) -> np.ndarray:
    """Rows, or with `column` elements, of a table; a position outside is moved inside, or gives zeros."""
    params, (table, indices) = params_of(call, IndexedRowsParams), images
    places, inside = _places(params, indices)
    flat = _as_rows(table, params)
    rows = flat[np.arange(len(flat))[:, np.newaxis], places]
    if params.fill:
        rows = np.where(inside[..., np.newaxis], rows, rows.dtype.type(0))
    return rows.reshape(call.outputs[0].shape)


@kernel("rows_scatter", IndexedRowsParams, unit="move", arity=3, l1_bytes=_buffers)
def rows_scatter(images: Images, call: Call) -> np.ndarray:
    """A table with updates joined in, position after position; one that is not wholly inside is dropped."""
    params = params_of(call, IndexedRowsParams)
    places, inside = _places(params, images[1])
    # What is only moved keeps its denormals.
    table, _, updates = images if params.combine == "update" else operands(images, call)
    result = np.array(_as_rows(table, params))
    batches, count = result.shape[:2]
    at = np.where(inside, places, -1)
    at = np.where(at < 0, -1, at + np.arange(batches)[:, np.newaxis] * count).ravel()
    rows, new = result.reshape(batches * count, -1), updates.reshape(at.size, -1)
    if params.combine == "update":
        rows[at[at >= 0]] = new[at >= 0]  # of equal places NumPy keeps the last
        return result.reshape(table.shape)
    join, output = COMBINE[params.combine], FORMATS[call.outputs[0].data_format]
    for part in rounds(at):
        joined = join(rows[at[part]], new[part])
        rows[at[part]] = quantise(joined, output) if output.is_float else joined
    # Elements that no update reaches keep their bits.
    reached = np.zeros(len(rows), bool)
    reached[at[at >= 0]] = True
    kept = images[0].reshape(rows.shape)
    return np.where(reached[:, np.newaxis], rows, kept).reshape(table.shape)
