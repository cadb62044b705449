"""`dot_general` becomes [batch, rows, inner] x [batch, inner, columns]: moves around a `matmul`."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import decomposes


@decomposes("dot_general")
def dot_general(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Emits the product and gives it the declared shape."""
    left, right = e.operands
    a, b = shape_of(left), shape_of(right)
    left_batch, right_batch = attrs["batch_dims_lhs"], attrs["batch_dims_rhs"]
    left_inner, right_inner = attrs["contract_dims_lhs"], attrs["contract_dims_rhs"]
    rows = [i for i in range(len(a)) if i not in left_batch + left_inner]
    columns = [i for i in range(len(b)) if i not in right_batch + right_inner]
    batch, inner = [a[i] for i in left_batch], prod(a[i] for i in left_inner)
    # A single inner dim that is first on the left or last on the right needs no move: it is read transposed.
    turn_left = len(left_inner) == len(rows) == 1 and left_inner[0] < rows[0]
    turn_right = len(right_inner) == len(columns) == 1 and columns[0] < right_inner[0]
    m, n = prod(a[i] for i in rows), prod(b[i] for i in columns)
    first, last = (left_inner, rows) if turn_left else (rows, left_inner)
    left = e.permute(left, [*left_batch, *first, *last])
    left = e.reshape(left, [*batch, *((inner, m) if turn_left else (m, inner))])
    first, last = (columns, right_inner) if turn_right else (right_inner, columns)
    right = e.permute(right, [*right_batch, *first, *last])
    right = e.reshape(right, [*batch, *((n, inner) if turn_right else (inner, n))])
    kind = e.like(e.op.results[0], (*batch, m, n))
    product = e.emit("matmul", [left, right], kind, transpose_a=turn_left, transpose_b=turn_right)
    return e.reshape(product, e.result_shape)
