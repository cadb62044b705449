"""Pass `ttir-implicit-broadcast-fold`: elementwise kernels repeat dims of size 1 themselves, as NumPy does.

If a `broadcast` makes an operand, the op reads the broadcast's operand instead. The same holds for reshapes that only
add leading dims of size 1. A constant of one number becomes a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import element, full, maker
from opscope.compiler.ops.shapes import Shape, broadcast, shape_of


@dataclass(frozen=True)
class TtirImplicitBroadcastFold(ModulePass):
    """Removes `broadcast` before elementwise kernels, which repeat dims of size 1."""

    name = "ttir-implicit-broadcast-fold"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place and removes moves that are no longer read."""
        PatternRewriteWalker(_Fold()).rewrite_module(op)


class _Fold(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replaces one operand at a time, as long as the others keep the result's shape."""
        if not isinstance(op, RowOp) or not broadcasts(op):
            return
        shape, changed = shape_of(op.results[0]), False
        for index, value in enumerate(op.operands):
            if not shape_of(value):
                continue
            others = [shape_of(v) for i, v in enumerate(op.operands) if i != index]
            before = _narrower(value, others, shape, op, rewriter)
            if before is not None:
                op.operands[index] = before
                changed = True
                source = value.owner
                if isinstance(source, Operation) and not value.uses:
                    rewriter.erase(source)
        if changed:
            rewriter.notify_op_modified(op)


def broadcasts(op: RowOp) -> bool:
    """Whether the op's kernel aligns its operands as NumPy does."""
    return op.name.startswith("ttir.") and op.ROW.group == "eltwise" and op.ROW.shape_rule is None


def _narrower(
    value: SSAValue, others: list[Shape], shape: Shape, reader: Operation, rewriter: PatternRewriter
) -> SSAValue | None:
    """Returns a value that can be read in place of `value`; None if there is none."""
    source = maker(value, "broadcast", "reshape", "full")
    if source is None:
        return None
    if source.ROW.ttir == "full":
        if broadcast((), *others) != shape:
            return None
        scalar = full((), element(value), 0, reader)
        scalar.properties["fill_value"] = source.properties["fill_value"]
        rewriter.insert(scalar)
        return scalar.results[0]
    before = source.operands[0]
    if source.ROW.ttir == "reshape":
        extra = len(shape_of(value)) - len(shape_of(before))
        # An operand as large as the result is no vector: its reshape may still meet an inverse.
        if extra < 1 or shape_of(value) == shape or shape_of(value) != (1,) * extra + shape_of(before):
            return None
    return before if broadcast(shape_of(before), *others) == shape else None
