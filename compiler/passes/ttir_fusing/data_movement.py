"""Names gathers and scatters of rows: `embedding`, `update_cache` of one position, `fill_cache` of the first ones.

PyTorch writes caches so (`index_copy_`, assignment to a slice), and JAX's `at[...].set`. Like `scatter`, `update_cache`
writes nothing at an index beyond the cache, so that it needs no guard.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from opscope.compiler.dialects.from_row import RowOp, element_of
from opscope.compiler.dialects.known_numbers import known_array
from opscope.compiler.dialects.ttir_values import is_float, like, make, shape_of
from opscope.compiler.passes.ttir_fusing.matching import fuses

PLACES = 2
"""The dim of a cache in which positions lie (tt-mlir)."""
OTHERS = (0, 1, 3)


@fuses("scatter")
def written(op: RowOp) -> list[RowOp] | None:
    """Matches whole rows of (batch, heads, positions, width) at one position, or at all from the first one on."""
    if len(op.operands) != 3 or not isinstance(op.operands[0], BlockArgument) or not is_float(op.operands[0]):
        return None
    cache, index, new = op.operands
    attrs, shape, reach = op.read(), shape_of(cache), _reach(op)
    if attrs["combine"] != "update" or reach is None or not 0 < reach <= shape[PLACES]:
        return None
    if element_of(index) not in ("i32", "ui32"):
        return None
    made: list[RowOp] = []

    def reshaped(value: SSAValue, wanted: tuple[int, ...]) -> SSAValue:
        if shape_of(value) == wanted:
            return value
        made.append(make("reshape", [value], like(value, wanted), op, shape=wanted))
        return made[-1].results[0]

    new = reshaped(new, (shape[0], shape[1], reach, shape[3]))
    if reach == 1 < shape[PLACES] and element_of(index) == "i32":
        place = reshaped(index, (1,))
        return [*made, make("update_cache", [cache, new, place], cache.type, op, batch_offset=0)]
    first = known_array(index)
    if first is None or not np.array_equal(first.ravel(), np.arange(first.size)):
        return None
    return [*made, make("fill_cache", [cache, new], cache.type, op, batch_offset=0)]


def _reach(op: RowOp) -> int | None:
    """Returns how many positions are written, in their order and whole in all other dims; None for other scatters."""
    attrs = op.read()
    shape, places, new = (shape_of(value) for value in op.operands)
    if len(shape) != 4 or tuple(attrs["scatter_dims_to_operand_dims"]) != (PLACES,):
        return None
    if attrs["input_batching_dims"] or attrs["scatter_indices_batching_dims"]:
        return None
    window, inserted = tuple(attrs["update_window_dims"]), tuple(attrs["inserted_window_dims"])
    whole = tuple(shape[dim] for dim in OTHERS)
    if not inserted and window == (0, 1, 2, 3) and prod(places) == 1:
        return new[PLACES] if tuple(new[dim] for dim in OTHERS) == whole else None
    if inserted != (PLACES,) or tuple(new[dim] for dim in window) != whole:
        return None
    # One index for each position, whose dim in the updates is that of the cache; or a single one, without a dim.
    return prod(places) if window == OTHERS or prod(places) == 1 else None


@fuses("gather")
def embedding(op: RowOp) -> list[RowOp] | None:
    """Matches whole rows of a table of two dims, by one number each, in the order of the numbers."""
    table, index = op.operands
    attrs, shape, places = op.read(), shape_of(table), shape_of(index)
    if "dim" in attrs or len(shape) != 2 or not is_float(table) or element_of(index) not in ("i32", "ui32"):
        return None
    if attrs["index_vector_dim"] == len(places) - 1 and places[-1:] == (1,):
        places = places[:-1]
    elif attrs["index_vector_dim"] != len(places):
        return None
    rows = {
        "offset_dims": (len(places),),
        "collapsed_slice_dims": (0,),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "start_index_map": (0,),
        "slice_sizes": (1, shape[1]),
    }
    if not places or any(tuple(attrs[name]) != wanted for name, wanted in rows.items()):
        return None
    made: list[RowOp] = []
    if shape_of(index) != places:
        made.append(make("reshape", [index], like(index, places), op, shape=places))
        index = made[0].results[0]
    return [*made, make("embedding", [index, table], op.results[0].type, op)]
