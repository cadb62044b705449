"""Rules for ops that choose by numbers that only a run knows: gathers and scatters of rows, and the k largest.

Where the host has the numbers, it makes rows of zeros and a one, and a product picks or adds up: exact, since one is.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import SSAValue

from opscope.compiler.dialects.known_numbers import known_array, known_number
from opscope.compiler.dialects.ttir_values import element, full, like, make, shape_of
from opscope.compiler.passes.ttir_decompose_buda.sums import AMPLIFIER, Sums

MOST_K = 8
MOST_EXACT = 256
"""Whole numbers from 0 that Float16_b holds."""
LOWEST = -(2.0**128 - 2.0**120)
"""The lowest number of Float16_b."""


def gather(s: Sums) -> SSAValue | None:
    """Rows of the operand's first dim, whose numbers the host has; None for any other gather."""
    operand, indices = s.op.operands
    attrs, rows, rest = s.op.read(), shape_of(operand)[0] if shape_of(operand) else 0, shape_of(operand)[1:]
    count = _count(indices, attrs["index_vector_dim"])
    if count is None or indices not in s.on_host or known_array(indices) is not None:
        return None
    rank = len(shape_of(s.op.results[0]))
    of_rows = (
        (attrs["collapsed_slice_dims"], attrs["start_index_map"]) == ((0,), (0,))
        and not attrs["operand_batching_dims"]
        and tuple(attrs["slice_sizes"]) == (1, *rest)
        and tuple(attrs["offset_dims"]) == tuple(range(rank - len(rest), rank))
    )
    if not of_rows:
        return None
    last, first = (s.put(full((count, 1), element(indices), number, s.op)) for number in (rows - 1, 0))
    column = s.move("reshape", indices, (count, 1))
    kind = column.type
    # An index outside of the operand is the nearest one inside.
    column = s.put(make("minimum", [s.put(make("maximum", [column, first], kind, s.op)), last], kind, s.op))
    chosen = _ones(s, column, _numbers(s, column, (1, rows)), (count, rows))
    flat = s.move("reshape", operand, (rows, prod(rest)))
    return s.move("reshape", _product(s, chosen, flat, (count, prod(rest))), shape_of(s.op.results[0]))


def scatter(s: Sums) -> SSAValue | None:
    """Adds rows to those of the operand's first dim, whose numbers the host has; None for any other scatter."""
    operand, indices, updates = s.op.operands
    attrs, rows, rest = s.op.read(), shape_of(operand)[0] if shape_of(operand) else 0, shape_of(operand)[1:]
    count, rank = _count(indices, attrs["index_vector_dim"]), len(shape_of(updates))
    if count is None or indices not in s.on_host or attrs["combine"] != "add":
        return None
    of_rows = (
        (attrs["inserted_window_dims"], attrs["scatter_dims_to_operand_dims"]) == ((0,), (0,))
        and not attrs["input_batching_dims"]
        and tuple(attrs["update_window_dims"]) == tuple(range(rank - len(rest), rank))
        and tuple(shape_of(updates)[rank - len(rest) :]) == tuple(rest)
    )
    if not of_rows:
        return None
    line = s.move("reshape", indices, (1, count))
    # A row with a number outside of the operand is dropped: it equals none.
    chosen = _ones(s, _numbers(s, line, (rows, 1)), line, (rows, count))
    flat = s.move("reshape", updates, (count, prod(rest)))
    total = s.move("reshape", _product(s, chosen, flat, (rows, prod(rest))), shape_of(operand))
    return total if known_number(operand) == 0 else s.do("add", operand, total)


def top_k(s: Sums) -> tuple[SSAValue, SSAValue] | None:
    """The k largest along the last dim and their places, as numbers; None if k or the dim are too large."""
    (operand,) = s.op.operands
    attrs, shape = s.op.read(), shape_of(operand)
    k, size = attrs["k"], shape[-1]
    last = attrs.get("dim", -1) in (-1, len(shape) - 1) and attrs.get("largest", True)
    if not last or k > MOST_K or size > MOST_EXACT:
        return None
    column = like(operand, (*shape[:-1], 1))
    line = s.put(
        make(
            "typecast",
            [_numbers(s, None, (1,) * (len(shape) - 1) + (size,))],
            like(operand, (1,) * (len(shape) - 1) + (size,)),
            s.op,
        )
    )
    places = s.move("broadcast", line, shape)

    def of(name: str, *operands: SSAValue) -> SSAValue:
        return s.put(make(name, operands, operands[0].type, s.op))

    def number(value: float) -> SSAValue:
        return s.move("broadcast", s.put(full((1,) * len(shape), element(operand), value, s.op)), shape)

    def largest(value: SSAValue) -> SSAValue:
        return s.put(make("max", [value], column, s.op, dim_arg=(len(shape) - 1,), keep_dim=True))

    def equal(first: SSAValue, second: SSAValue) -> SSAValue:
        apart = of("abs", of("multiply", of("subtract", first, second), number(AMPLIFIER)))
        return of("relu", of("subtract", number(1), apart))

    backwards = of("subtract", number(size), places)  # Larger for an earlier place, never zero.
    values, chosen, rest = [], [], operand
    for step in range(k):
        value = largest(rest)
        first = largest(of("multiply", equal(rest, s.move("broadcast", value, shape)), backwards))
        place = of("subtract", s.put(full((*shape[:-1], 1), element(operand), size, s.op)), first)
        values.append(value)
        chosen.append(place)
        if step < k - 1:
            taken = equal(places, s.move("broadcast", place, shape))
            rest = of("add", rest, of("multiply", taken, number(LOWEST)))
    wanted = like(operand, (*shape[:-1], k))
    both = [
        parts[0] if k == 1 else s.put(make("concat", parts, wanted, s.op, dim=len(shape) - 1))
        for parts in (values, chosen)
    ]
    return both[0], both[1]


def _count(indices: SSAValue, vector: int) -> int | None:
    """Returns the number of indices if each is one number, else None."""
    shape = shape_of(indices)
    return prod(shape) if vector == len(shape) or (vector == len(shape) - 1 and shape[-1] == 1) else None


def _numbers(s: Sums, like_value: SSAValue | None, shape: tuple[int, ...]) -> SSAValue:
    """Returns 0, 1 and so on along the one dim of `shape` that is not 1."""
    dim = max(range(len(shape)), key=lambda d: shape[d])
    kind = element(like_value) if like_value is not None else element(s.op.results[1])
    attrs = {"start": 0, "end": shape[dim], "step": 1, "arange_dimension": dim}
    made = make("arange", [], TensorType(kind, list(shape)), s.op, **attrs)
    return s.put(made)


def _ones(s: Sums, first: SSAValue, second: SSAValue, shape: tuple[int, int]) -> SSAValue:
    """Returns ones where both are equal."""
    same = [s.move("broadcast", value, shape) for value in (first, second)]
    truth = s.put(make("eq", same, TensorType(i1, list(shape)), s.op))
    return s.put(make("typecast", [truth], TensorType(s.kind.element_type, list(shape)), s.op))


def _product(s: Sums, left: SSAValue, right: SSAValue, shape: tuple[int, int]) -> SSAValue:
    return s.put(make("matmul", [left, right], like(right, shape), s.op, transpose_a=False, transpose_b=False))
