"""Pass `ttir-to-ttir-decomposition`: rewrites ops without a kernel as ops that have one.

`dot_general` becomes [batch, rows, inner] x [batch, inner, columns]: permutations and reshapes around a `matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import mark_parts
from opscope.compiler.dialects.ttir_values import like, make, shape_of
from opscope.compiler.dialects.unlowered import DotGeneralOp


@dataclass(frozen=True)
class TtirToTtirDecomposition(ModulePass):
    """Rewrites each such op in its place."""

    name = "ttir-to-ttir-decomposition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for inner in list(op.walk()):
            if isinstance(inner, DotGeneralOp):
                _Contraction(inner).write()


class _Contraction:
    """A `dot_general` and the ops that replace it."""

    def __init__(self, op: RowOp) -> None:
        self.op = op
        self.made: list[RowOp] = []

    def write(self) -> None:
        """Emits the product and gives it the declared shape."""
        attrs, (left, right) = self.op.read(), self.op.operands
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
        left = self.reshape(
            self.permute(left, [*left_batch, *first, *last]), [*batch, *((inner, m) if turn_left else (m, inner))]
        )
        first, last = (columns, right_inner) if turn_right else (right_inner, columns)
        right = self.reshape(
            self.permute(right, [*right_batch, *first, *last]), [*batch, *((n, inner) if turn_right else (inner, n))]
        )
        kind = like(self.op.results[0], [*batch, m, n])
        product = self.emit("matmul", [left, right], kind, transpose_a=turn_left, transpose_b=turn_right)
        result = self.reshape(product, shape_of(self.op.results[0]))
        mark_parts(self.made, [result])
        block = self.op.parent
        assert block is not None
        block.insert_ops_before(self.made, self.op)
        self.op.results[0].replace_all_uses_with(result)
        self.op.detach()
        self.op.erase()

    def emit(self, name: str, operands: Sequence[SSAValue], result, **attrs) -> SSAValue:  # type: ignore[no-untyped-def]
        """Appends one op."""
        self.made.append(make(name, operands, result, self.op, **attrs))
        return self.made[-1].results[0]

    def permute(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Permutes a value; returns it as it is if nothing moves."""
        if list(order) == sorted(order):
            return value
        shape = shape_of(value)
        return self.emit("permute", [value], like(value, [shape[i] for i in order]), permutation=order)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshapes a value; returns it as it is if the shape is the same."""
        if shape_of(value) == tuple(shape):
            return value
        return self.emit("reshape", [value], like(value, shape), shape=shape)
