"""Fuses reductions that exporters write out: `mean`, `cumsum`, `softmax`, and `argmax` as JAX writes it."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from opscope.compiler.dialects.from_row import RowOp, element_of
from opscope.compiler.dialects.ttir_values import is_float, make, maker, read_once, readers, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import fuses


@fuses("div")
def mean(op: RowOp) -> list[RowOp] | None:
    """Matches sum(x) / n, where n is the number of elements in each sum."""
    total, count = op.operands
    source = maker(total, "sum")
    if source is None or not read_once(total) or not is_float(total) or total.type != op.results[0].type:
        return None
    shape, dims = shape_of(source.operands[0]), source.read()["dim_arg"]
    if splat(count) != prod(shape[d] for d in dims):
        return None
    return [make("mean", source.operands, op.results[0].type, op, **source.read())]


@fuses("sum_pool2d")
def cumsum(op: RowOp) -> list[RowOp] | None:
    """Matches a window as long as one dim, padded so that it ends at each element (or begins there, backwards)."""
    attrs, shape = op.read(), shape_of(op.operands[0])
    for dim in (1, 2):
        size, place = shape[dim], 2 * (dim - 1)
        kernel = (size, 1) if dim == 1 else (1, size)
        before, after = attrs["padding"][place : place + 2]
        other = attrs["padding"][2 - place : 4 - place]
        if tuple(attrs["kernel"]) != kernel or size < 2 or any(other) or {before, after} != {0, size - 1}:
            continue
        if tuple(attrs["stride"]) != (1, 1) or tuple(attrs["dilation"]) != (1, 1):
            continue
        kind = op.results[0].type
        if before:
            return [make("cumsum", op.operands, kind, op, dim=dim)]
        turned = make("reverse", op.operands, kind, op, dimensions=(dim,))
        summed = make("cumsum", turned.results, kind, op, dim=dim)
        return [turned, summed, make("reverse", summed.results, kind, op, dimensions=(dim,))]
    return None


@fuses("div")
def softmax(op: RowOp) -> list[RowOp] | None:
    """Matches exp(x - max(x)) / sum(exp(x - max(x))) along one dim; without the maximum it is numerically unstable."""
    top, below = op.operands
    total, raised = maker(below, "sum"), maker(top, "exp")
    if total is None or raised is None or total.operands[0] is not top or set(readers(top)) != {op, total}:
        return None
    attrs = total.read()
    if len(attrs["dim_arg"]) != 1 or not attrs["keep_dim"]:
        return None
    value, stable = _shifted(raised.operands[0], attrs)
    dim = attrs["dim_arg"][0]
    return [make("softmax", [value], op.results[0].type, op, dimension=dim, numericStable=stable)]


def _shifted(value: SSAValue, attrs: dict) -> tuple[SSAValue, bool]:
    """Returns (x, True) if the value is x - max(x), else the value itself and False."""
    op = maker(value, "subtract")
    if op is not None:
        largest = maker(op.operands[1], "max")
        if largest is not None and largest.operands[0] is op.operands[0] and largest.read() == attrs:
            return op.operands[0], True
    return value, False


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
