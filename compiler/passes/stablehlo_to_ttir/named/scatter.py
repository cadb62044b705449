"""Scatter along one dim, by an index for each element of the updates, and the gradient of an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.dialects.ttcore import ReduceTypeAttr
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import combination
from opscope.compiler.passes.stablehlo_to_ttir.dynamic_slice import cut
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import splat
from opscope.compiler.passes.stablehlo_to_ttir.named.slices import integers

REDUCE_TYPES = {"update": "invalid", "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
"""How a scatter's body joins old values and updates -> tt-mlir's word."""


@dataclass(frozen=True)
class _Scatter:
    """The attributes of one scatter."""

    window: tuple[int, ...]
    inserted: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    dims: tuple[int, ...]
    vector: int


@named("stablehlo.scatter")
def scatter(e: Emit) -> SSAValue | list[SSAValue]:
    """Emits `embedding_backward` where rows are added, else `scatter`. Raises StageFailure for other bodies."""
    numbers = e.spec("scatter_dimension_numbers")
    s = _Scatter(
        numbers.ints("update_window_dims"),
        numbers.ints("inserted_window_dims"),
        numbers.ints("input_batching_dims"),
        numbers.ints("scatter_indices_batching_dims"),
        numbers.ints("scattered_dims_to_operand_dims"),
        numbers.int("index_vector_dim"),
    )
    if len(e.op.results) != 1:
        raise e.refuse(f"expected a scatter of one tensor, got one of {len(e.op.results)}")
    (region,) = e.op.regions
    word = REDUCE_TYPES.get(combination(region, e.result_type.element_type))
    if word is None:
        raise e.refuse(f"expected a body that is one of {', '.join(REDUCE_TYPES)}, got another")
    if word == "invalid" and not s.dims and not s.batching and shape_of(e.operands[2]) == shape_of(e.operands[0]):
        return e.operands[2]
    if word == "sum" and _adds_rows(e, s):
        return _embedding_backward(e)
    if len(s.dims) > 1:
        return _flat(e, s, word)
    return _along(e, s, word)


def _adds_rows(e: Emit, s: _Scatter) -> bool:
    """Whether whole rows of a float table are added at one index each."""
    table, index, updates = (shape_of(v) for v in e.operands)
    last = len(updates) - 1
    return (
        len(table) == 2
        and not hasattr(e.result_type.element_type, "width")
        and s.window == (last,)
        and s.inserted == s.dims == (0,)
        and s.vector == len(index) - 1
        and updates[-1] == table[1]
    )


def _embedding_backward(e: Emit) -> SSAValue:
    table, index, updates = e.operands
    if len(shape_of(index)) < 3:
        index = e.reshape(index, [1, *shape_of(index)])
    result = e.emit("embedding_backward", [index, table, updates], e.result_type)
    return result if splat(e.op.operands[0]) == 0 else e.emit("add", [table, result], e.result_type)


def _scattered(value: SSAValue, without: Sequence[int]) -> list[int]:
    """The sizes of dims that are not in `without`."""
    return [n for d, n in enumerate(shape_of(value)) if d not in without]


def _along(e: Emit, s: _Scatter, word: str) -> SSAValue:
    """One dim at most is indexed: its index, plus the place in a window, for each element of the updates."""
    operand, index, updates = e.operands
    shape = shape_of(operand)
    dim = s.dims[0] if s.dims else 0
    batches = [d for d in range(len(shape_of(updates))) if d not in s.window]
    windows = dict(zip((d for d in range(len(shape)) if d not in (*s.inserted, *s.batching)), s.window, strict=True))
    indexed = [d for d in range(len(shape_of(index))) if d != s.vector]
    batching = dict(zip(s.batching, (batches[indexed.index(d)] for d in s.index_batching), strict=True))
    free = [d for d in batches if d not in batching.values()]
    reach = shape_of(updates)[windows[dim]] if dim in windows else 1
    order: list[int] = []
    sizes: list[int] = []
    for d in range(len(shape)):
        own = [batching[d]] if d in batching else [windows[d]] if d in windows else []
        order += [*(free if d == dim else []), *own]
        sizes.append(prod(shape_of(updates)[at] for at in [*(free if d == dim else []), *own]))
    source = e.reshape(e.permute(updates, order), sizes)
    if s.dims:
        places = _starts(e, s, batching, batches, dim, sizes, reach)
    else:  # nothing is indexed: each batch writes at its own place, or all at the start
        kind = e.like(index, tuple(sizes))
        places = e.emit("arange", [], kind, start=0, end=sizes[dim], step=1, arange_dimension=dim)
    return _emit(e, operand, places, source, dim, word)


def _starts(
    e: Emit, s: _Scatter, batching: dict[int, int], batches: list[int], dim: int, sizes: list[int], reach: int
) -> SSAValue:
    """Returns the index of each element along `dim`, in the shape of the updates."""
    index = e.operands[1]
    free = [d for d in batches if d not in batching.values()]
    counts = _scattered(index, (s.vector,))
    rank = len(sizes)
    lines = [counts[batches.index(batching[d])] if d in batching else 1 for d in range(rank)]
    lines[dim] = prod(counts[batches.index(d)] for d in free)
    order = [batches.index(batching[d]) for d in sorted(batching) if d < dim]
    order += [batches.index(d) for d in free]
    order += [batches.index(batching[d]) for d in sorted(batching) if d > dim]
    if s.vector < len(shape_of(index)):
        index = e.reshape(index, counts) if order != sorted(order) else index
    start = e.reshape(e.permute(index, order) if order != sorted(order) else index, lines)
    if reach == 1:
        return _repeated(e, start, sizes)
    # Windows along the scattered dim run on from their start.
    spread = _repeated(
        e,
        e.reshape(start, [*lines[: dim + 1], 1, *lines[dim + 1 :]]),
        [*sizes[:dim], lines[dim], reach, *sizes[dim + 1 :]],
    )
    places = e.reshape(spread, sizes)
    kind = e.like(index, tuple(sizes))
    steps = e.emit("arange", [], kind, start=0, end=sizes[dim], step=1, arange_dimension=dim)
    if lines[dim] != 1:
        width = integers(e, [reach], index)
        steps = e.emit("remainder", [steps, e.reshape(width, [1] * rank)], kind)
    return e.emit("add", [places, steps], kind)


def _repeated(e: Emit, value: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """Repeats dims of size 1; returns the value as it is if it has these sizes."""
    counts = [size // n for size, n in zip(sizes, shape_of(value), strict=True)]
    if all(count == 1 for count in counts):
        return value
    return e.emit("repeat", [value], e.like(value, tuple(sizes)), repeat_dimensions=counts)


def _flat(e: Emit, s: _Scatter, word: str) -> SSAValue:
    """Several dims are indexed: the operand as a line of the elements, or rows, that they number."""
    operand, index, updates = e.operands
    shape = shape_of(operand)
    rest = [d for d in range(len(shape)) if d not in s.dims]
    points = s.inserted == tuple(sorted(s.dims)) and not s.batching
    rows = [d for d in range(len(shape_of(updates))) if d not in s.window]
    whole = [shape_of(updates)[d] for d in s.window] == [shape[d] for d in rest]
    if s.batching or s.vector != len(shape_of(index)) - 1:
        raise e.refuse("expected vectors of indices in the last dim, without batches, got another scatter")
    count, width = prod(shape_of(updates)[d] for d in rows), prod(shape[d] for d in rest)
    last = len(shape_of(index)) - 1
    number: SSAValue | None = None
    points = points and whole
    strides = [
        prod(shape[o] for o in (s.dims[at + 1 :] if points else range(d + 1, len(shape))))
        for at, d in enumerate(s.dims)
    ]
    for place, stride in enumerate(strides):
        column = cut(e, index, last, place)
        if stride != 1:
            column = e.emit("multiply", [column, e.constant(column.type, stride)], column.type)
        number = column if number is None else e.emit("add", [number, column], column.type)
    assert number is not None
    if not points:
        return _windows(e, s, e.reshape(number, [count, 1]), rows, word)
    moved = [*s.dims, *rest]
    table = e.permute(operand, moved)
    source = e.permute(updates, [*rows, *s.window])
    size = prod(shape[d] for d in s.dims)
    if rest:
        table, source = e.reshape(table, [size, width]), e.reshape(source, [count, width])
        number = _repeated(e, e.reshape(number, [count, 1]), [count, width])
    else:
        table, source, number = e.reshape(table, [size]), e.reshape(source, [count]), e.reshape(number, [count])
    result = _emit(e, table, number, source, 0, word)
    result = e.reshape(result, [shape[d] for d in moved])
    return e.permute(result, [moved.index(d) for d in range(len(shape))])


def _windows(e: Emit, s: _Scatter, number: SSAValue, rows: Sequence[int], word: str) -> SSAValue:
    """Writes windows that begin at these numbers, [count, 1], of the elements of the operand as one line."""
    operand, _, updates = e.operands
    shape = shape_of(operand)
    kept = [d for d in range(len(shape)) if d not in s.inserted]
    window, size = [shape_of(updates)[at] for at in s.window], prod(shape)
    count, reach = shape_of(number)[0], prod(window)
    inside: SSAValue | None = None
    for at, d in enumerate(kept):
        step, kind = prod(shape[d + 1 :]), e.like(number, tuple(window))
        line = e.emit("arange", [], kind, start=0, end=window[at] * step, step=step, arange_dimension=at)
        inside = line if inside is None else e.emit("add", [inside, line], kind)
    places = e.broadcast(number, [count, reach])
    if inside is not None:
        inside = e.broadcast(e.reshape(inside, [1, reach]), [count, reach])
        places = e.emit("add", [places, inside], places.type)
    source = e.reshape(e.permute(updates, [*rows, *s.window]), [count * reach])
    result = _emit(e, e.reshape(operand, [size]), e.reshape(places, [count * reach]), source, 0, word)
    return e.reshape(result, shape)


def _emit(e: Emit, operand: SSAValue, index: SSAValue, updates: SSAValue, dim: int, word: str) -> SSAValue:
    kind = ReduceTypeAttr.of(word)
    (result,) = e.emit_all("scatter", [operand, index, updates], [operand.type], dim=dim, scatter_reduce_type=kind)
    assert element_of(result) == element_of(operand)
    return result
