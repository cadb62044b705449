"""Argmax, sorting by one comparison, and the largest k, by their names."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.ir import Operation, Region, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import THROUGH, maker

ARGMAX_OPS = frozenset(
    f"stablehlo.{name}" for name in ("compare", "select", "or", "and", "minimum", "maximum", "return")
)


@named("stablehlo.reduce")
def reduce(e: Emit) -> list[SSAValue] | None:
    """A reduction of values and their positions that keeps the larger value is their maximum and `argmax`."""
    if (
        len(e.op.results) != 2
        or not _counts(e.op.operands[1], e.ints("dimensions"))
        or not _keeps_larger(e.op.regions[0])
    ):
        return None
    value, kinds = e.operands[0], e.result_types
    dims = e.ints("dimensions")
    largest = e.emit("max", [value], kinds[0], dim_arg=dims, keep_dim=False)
    narrow = TensorType(i32, shape_of(e.op.results[1]))
    place = e.emit("argmax", [value], narrow, dim_arg=dims, keep_dim=False)
    return [largest, e.typecast(place, kinds[1].element_type)]


def _counts(value: SSAValue, dims: tuple[int, ...]) -> bool:
    """Whether a value counts 0, 1, ... along the only dim in `dims`."""
    op = maker(value)
    if len(dims) != 1 or op is None:
        return False
    (dim,) = dims
    while op is not None and op.name in THROUGH:
        if op.name == "stablehlo.broadcast_in_dim":
            dimensions: Any = op.attributes["broadcast_dimensions"]
            places = [int(d) for d in dimensions.get_values()]
            if dim not in places:
                return False
            dim = places.index(dim)
        elif op.name == "stablehlo.reshape":
            shape, wide = shape_of(op.operands[0]), shape_of(op.results[0])
            size = wide[dim]
            if [n for n in wide if n != 1] != [n for n in shape if n != 1] or shape.count(size) != 1:
                return False
            dim = shape.index(size)
        op = maker(op.operands[0])
    if op is None or op.name != "stablehlo.iota":
        return False
    number: Any = op.attributes["iota_dimension"]
    return number.value.data == dim


def _keeps_larger(region: Region) -> bool:
    """Whether a body hands on the larger value, compared by GT or GE, and its position, as exporters write it."""
    block = region.blocks[0]
    ops = list(block.ops)
    if any(op.name not in ARGMAX_OPS for op in ops):
        return False
    end = ops[-1]
    first = [op for op in ops if op.name == "stablehlo.compare"]
    directions = {_direction(op) for op in first if set(op.operands) == {block.args[0], block.args[2]}}
    chosen = end.operands[0].owner
    return (
        isinstance(chosen, Operation)
        and chosen.name in ("stablehlo.select", "stablehlo.maximum")
        and set(chosen.operands[-2:]) == {block.args[0], block.args[2]}
        and bool(directions & {"GT", "GE"})
        and not directions & {"LT", "LE"}
    )


def _direction(op: Operation) -> str:
    direction: Any = op.attributes["comparison_direction"]
    return direction.value


@named("stablehlo.sort")
def sort(e: Emit) -> list[SSAValue] | None:
    """Values, alone or with their positions. Raises StageFailure for what tt-mlir's op cannot sort."""
    (dim,) = e.ints("dimension", [-1])
    rank = len(shape_of(e.operands[0]))
    dim %= max(rank, 1)
    descending = _descending(e.op.regions[0])
    pair = len(e.operands) == 2 and _counts(e.op.operands[1], (dim,))
    if descending is None or not (len(e.operands) == 1 or pair):
        raise e.refuse("expected values, alone or with their positions, in one direction, got another sort")
    stable = e.attr("is_stable")
    value = e.operands[0]
    element = e.result_types[1].element_type if pair else i32
    whole = element if isinstance(element, IntegerType) else i32
    values, indices = e.emit_all(
        "sort",
        [value],
        [value.type, TensorType(whole, shape_of(value))],
        dim=dim,
        descending=descending,
        stable=bool(stable.value.data) if stable is not None else False,
    )
    return [values, e.typecast(indices, element)] if pair else [values]


def _descending(region: Region) -> bool | None:
    """Whether a comparator puts the larger value first; None if it does something else."""
    block = region.blocks[0]
    ops = [op for op in block.ops if op.name == "stablehlo.compare"]
    if len(ops) != 1 or len(list(block.ops)) != 2 or set(ops[0].operands) != set(block.args[:2]):
        return None
    direction = _direction(ops[0])
    if direction not in ("GT", "GE", "LT", "LE"):
        return None
    return (direction in ("GT", "GE")) == (ops[0].operands[0] is block.args[0])
