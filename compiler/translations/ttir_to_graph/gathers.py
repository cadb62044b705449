"""Which element of its operand each element of a gather is, by StableHLO's specification of gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opscope.compiler.translations.ttir_to_graph.layout import Dims


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
