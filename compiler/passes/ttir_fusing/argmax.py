"""Names a reduction of values and their positions, as JAX writes it: `argmax`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from opscope.compiler.dialects.from_row import RowOp, element_of
from opscope.compiler.dialects.ttir_values import is_float, make, maker, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import fuses

_GREATER = ("logical_or", ("gt", 0, 2), ("ne", 0, 0))
_FIRST = ("logical_or", _GREATER, ("logical_and", ("eq", 0, 2), ("lt", 1, 3)))
LARGEST = [("where", _GREATER, 0, 2), ("where", _FIRST, 1, 3)]
"""The results of the body: the larger value (or a NaN), and of equal ones the first position."""


@fuses("reduce_body")
def argmax(op: RowOp) -> list[RowOp] | None:
    """Matches positions that count along the one reduced dim, from 0, and start values that any element replaces."""
    attrs = op.read()
    if len(op.operands) != 4 or len(attrs["dim_arg"]) != 1 or not is_float(op.operands[0]):
        return None
    value, places, lowest, zero = op.operands
    (dim,) = attrs["dim_arg"]
    counted = maker(places, "arange")
    if counted is None or element_of(places) != "i32" or shape_of(places) != shape_of(value):
        return None
    steps = counted.read()
    if (steps["arange_dimension"], steps["start"], steps["step"]) != (dim, 0, 1) or shape_of(value)[dim] == 0:
        return None
    if splat(zero) != 0 or splat(lowest) != float("-inf") or _results(op, attrs["programs"]) != LARGEST:
        return None
    kinds = [result.type for result in op.results]
    largest = make("max", [value], kinds[0], op, dim_arg=(dim,), keep_dim=False)
    return [largest, make("argmax", [value], kinds[1], op, dim_arg=(dim,), keep_dim=False)]


def _results(op: RowOp, programs: Any) -> list[Any]:
    """Returns what the body computes, as nested tuples of ops and numbers of arguments."""
    body = SymbolTable.lookup_symbol(op, str(programs[0]).removeprefix("@"))
    if not isinstance(body, FuncOp):
        return []
    block = body.body.blocks[0]
    end = block.last_op

    def term(value: SSAValue) -> Any:
        if not isinstance(value.owner, Operation):
            return block.args.index(value)
        return (value.owner.name.removeprefix("ttir."), *(term(operand) for operand in value.owner.operands))

    return [term(value) for value in end.operands] if isinstance(end, ReturnOp) else []
