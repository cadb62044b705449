"""Names a gather of a table's rows: `embedding`."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import RowOp, element_of
from opscope.compiler.dialects.ttir_values import is_float, like, make, shape_of
from opscope.compiler.passes.ttir_fusing.matching import fuses


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
