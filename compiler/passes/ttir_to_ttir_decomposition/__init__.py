"""Pass `ttir-to-ttir-decomposition`: writes ops of tt-mlir's ttir without a kernel as ops that have one.

Most have rows of kind `decomposed`; `gather`, `scatter`, `sort` and the convolutions share a row with this compiler's
own, more general form, and are rewritten if they have tt-mlir's attributes. An op that its pattern cannot write is left
as it is, and `ttir-to-ttnn` refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import mark_parts
from opscope.compiler.dialects.ttcore import OptimizationBarrierOp
from opscope.compiler.ir.functions import functions
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition import (  # noqa: F401  (each fills PATTERNS)
    activations,
    contraction,
    convolutions,
    creation,
    indexing,
    movements,
    norms,
    reductions,
)
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import PATTERNS


@dataclass(frozen=True)
class TtirToTtirDecomposition(ModulePass):
    """Rewrites `dot_general` as permutations and reshapes around a `matmul`, and tt-mlir's named ops in those that
    have kernels."""

    name = "ttir-to-ttir-decomposition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place. Raises StageFailure for attributes that no kernel here understands."""
        for func in functions(op):
            for inner in list(func.walk()):
                if isinstance(inner, RowOp) and inner.name.startswith("ttir.") and inner.ROW.ttir in PATTERNS:
                    _rewrite(inner, func, op)
                elif isinstance(inner, OptimizationBarrierOp):
                    for old, new in zip(inner.results, inner.operands, strict=True):
                        old.replace_all_uses_with(new)
                    inner.detach()
                    inner.erase()


def _rewrite(op: RowOp, func: FuncOp, module: ModuleOp) -> None:
    made = Block()
    results = PATTERNS[op.ROW.ttir](Emit(op, list(op.operands), made), op.read())
    if results is None:
        return
    values: list[SSAValue] = [results] if isinstance(results, SSAValue) else list(results)
    new_ops: list[Operation] = [made.detach_op(each) or each for each in list(made.ops)]
    mark_parts(new_ops, values)
    block = op.parent
    assert block is not None
    block.insert_ops_before(new_ops, op)
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    for each in new_ops:  # a pattern may use other named ops
        if isinstance(each, RowOp) and each.ROW.ttir in PATTERNS:
            _rewrite(each, func, module)
