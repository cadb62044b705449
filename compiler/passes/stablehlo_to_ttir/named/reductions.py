"""Argmax, sorting by one comparison, and the largest k, by their names."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.ir import Operation, Region, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import THROUGH, maker, splat

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
    if any(splat(start) is None for start in e.op.operands[2:]):
        raise e.refuse("expected an argmax that begins with numbers, got one that begins with values")
    largest = e.emit("max", [value], kinds[0], dim_arg=dims, keep_dim=False)
    return [largest, e.emit("argmax", [value], kinds[1], dim_arg=dims, keep_dim=False)]


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
    if descending is None:
        raise e.refuse("expected values, alone or with what moves with them, in one direction, got another sort")
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
    if pair:
        return [values, e.typecast(indices, element)]
    return [values, *_moved_along(e, indices, dim)] if len(e.operands) > 1 else [values]


def _moved_along(e: Emit, indices: SSAValue, dim: int) -> list[SSAValue]:
    """The other operands of a sort in the order of its indices: rows of a table of one column, numbered by line."""
    shape = shape_of(indices)
    order = [*(d for d in range(len(shape)) if d != dim), dim]
    back, lines = [order.index(d) for d in range(len(shape))], [shape[d] for d in order]
    size, length = prod(shape), shape[dim]
    rows = [size // length if length else 0, length]

    def moved(value: SSAValue, permutation: list[int]) -> SSAValue:
        kind = e.like(value, tuple(shape_of(value)[d] for d in permutation))
        return e.emit("permute", [value], kind, permutation=permutation)

    def shaped(value: SSAValue, sizes: list[int]) -> SSAValue:
        return e.emit("reshape", [value], e.like(value, tuple(sizes)), shape=sizes)

    places = shaped(moved(indices, order), rows)
    starts = e.emit("arange", [], places.type, start=0, end=size, step=length, arange_dimension=0)
    places = e.emit("add", [starts, places], places.type)
    results = []
    for value in e.operands[1:]:
        table = shaped(moved(value, order), [size, 1])
        read = e.emit("embedding", [places, table], e.like(value, (*rows, 1)))
        results.append(moved(shaped(read, lines), back))
    return results


def _descending(region: Region) -> bool | None:
    """Whether a comparator puts the larger value first; None if it does something else."""
    block = region.blocks[0]
    last = maker(block.last_op.operands[0], "stablehlo.compare") if block.last_op is not None else None
    sides = [_compared(value) for value in last.operands] if last is not None else []
    if (
        last is None
        or set(sides) != set(block.args[:2])
        or (direction := _direction(last)) not in ("GT", "GE", "LT", "LE")
    ):
        return None
    return (direction in ("GT", "GE")) == (sides[0] is block.args[0])


def _compared(value: SSAValue) -> SSAValue:
    """The value that a comparator compares, without JAX's choice of one zero and one NaN for all that are equal."""
    chosen = maker(value, "stablehlo.select")
    while chosen is not None:
        test, inner = maker(chosen.operands[0], "stablehlo.compare"), _compared(chosen.operands[2])
        number = splat(chosen.operands[1])
        if test is None or number is None or inner is not test.operands[0]:
            return value
        zero = _direction(test) == "EQ" and number == 0 and splat(test.operands[1]) == 0
        nan = _direction(test) == "NE" and number != number and test.operands[1] is inner
        return inner if zero or nan else value
    return value
