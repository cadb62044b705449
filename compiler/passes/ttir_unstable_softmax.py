"""Pass `ttir-unstable-softmax`: a softmax no longer subtracts its maximum (tt-buda: enable_stable_softmax=False).

`exp(x - max(x)) / sum(exp(x - max(x)))` becomes `exp(x) / sum(exp(x))`, which is the same number as long as no exp
overflows, and needs neither the maximum nor the difference. Nothing else that subtracts a maximum is changed: of the
exp nothing may be read but its sum and the quotient by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import maker, splat
from opscope.compiler.ir.functions import functions

MOVED = ("reshape", "broadcast", "typecast")


@dataclass(frozen=True)
class TtirUnstableSoftmax(ModulePass):
    """Removes the maximum of softmaxes."""

    name = "ttir-unstable-softmax"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites all functions."""
        for function in functions(op):
            for exp in [inner for inner in function.walk() if inner.name == "ttir.exp"]:
                difference = maker(exp.operands[0], "subtract")
                if difference is None or not _is_softmax(exp):
                    continue
                value, shift = difference.operands
                if _is_maximum(shift, value):
                    exp.operands[0] = value
            region_dce(function.body)


def _is_maximum(value: SSAValue, of: SSAValue) -> bool:
    """Whether `value` is the maximum of `of`, repeated along the dimensions that it was taken of."""
    op = _unmoved(value)
    if op is not None and op.ROW.ttir == "maximum":  # jax.nn.softmax bounds it by minus infinity
        rest = [operand for operand in op.operands if splat(operand) != float("-inf")]
        op = _unmoved(rest[0]) if len(rest) == 1 else None
    return op is not None and op.ROW.ttir == "max" and op.operands[0] == of


def _unmoved(value: SSAValue) -> RowOp | None:
    op = maker(value)
    while op is not None and op.ROW.ttir in MOVED:
        op = maker(op.operands[0])
    return op


def _is_softmax(exp: Operation) -> bool:
    """Whether an exp is read by its sum and by its quotient with that sum alone."""
    result = exp.results[0]
    readers = [use.operation for use in result.uses]
    kinds = sorted(reader.name for reader in readers)
    if kinds != ["ttir.div", "ttir.sum"]:
        return False
    quotient = next(reader for reader in readers if reader.name == "ttir.div")
    total = _unmoved(quotient.operands[1])
    return quotient.operands[0] == result and total is not None and total in readers
