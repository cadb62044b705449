"""Contractions: dot_general and dot as permute, reshape, matmul, reshape."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from compiler.ops.shapes import shape_of
from compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers("stablehlo.dot_general")
def dot_general(e: Emit) -> SSAValue:
    """[batch, rows, inner] x [batch, inner, columns]; dims already in that order are not moved."""
    numbers = e.spec("dot_dimension_numbers")
    return contract(
        e,
        numbers.ints("lhs_batching_dimensions"),
        numbers.ints("rhs_batching_dimensions"),
        numbers.ints("lhs_contracting_dimensions"),
        numbers.ints("rhs_contracting_dimensions"),
    )


@lowers("stablehlo.dot")
def dot(e: Emit) -> SSAValue:
    """The last dim of the left with the first of the right."""
    return contract(e, (), (), (len(shape_of(e.operands[0])) - 1,), (0,))


def contract(
    e: Emit,
    left_batch: tuple[int, ...],
    right_batch: tuple[int, ...],
    left_inner: tuple[int, ...],
    right_inner: tuple[int, ...],
) -> SSAValue:
    """Emits the product and gives it the declared result type."""
    left, right = e.operands
    element = e.result_type.element_type
    # Operands of another type than the result's (a bf16 product declared f32) are widened first, which is exact.
    left, right = e.typecast(left, element), e.typecast(right, element)
    a, b = shape_of(left), shape_of(right)
    rows = [i for i in range(len(a)) if i not in left_batch + left_inner]
    columns = [i for i in range(len(b)) if i not in right_batch + right_inner]
    batch = [a[i] for i in left_batch]
    inner = prod(a[i] for i in left_inner)
    # One inner dim that stands first on the left or last on the right needs no move: the kernel reads it transposed.
    transpose_a = len(left_inner) == len(rows) == 1 and left_inner[0] < rows[0]
    transpose_b = len(right_inner) == len(columns) == 1 and columns[0] < right_inner[0]
    left = e.permute(
        left, [*left_batch, *(left_inner if transpose_a else rows), *(rows if transpose_a else left_inner)]
    )
    right = e.permute(
        right, [*right_batch, *(columns if transpose_b else right_inner), *(right_inner if transpose_b else columns)]
    )
    m, n = prod(a[i] for i in rows), prod(b[i] for i in columns)
    left = e.reshape(left, [*batch, *((inner, m) if transpose_a else (m, inner))])
    right = e.reshape(right, [*batch, *((n, inner) if transpose_b else (inner, n))])
    product = e.emit(
        "matmul",
        [left, right],
        TensorType(element, [*batch, m, n]),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    return e.reshape(product, e.result_shape)
