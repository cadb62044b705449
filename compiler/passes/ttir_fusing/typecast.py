"""Removes conversions between float formats that the unpacker and the packer do anyway.

A float that was widened is read in its format before that, since every kernel computes in float32 anyway. A result that
is only narrowed is packed in the narrow format directly. Neither changes a bit.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import element, is_float, maker, read_once

COMPUTING = frozenset({"eltwise", "norm", "reduce", "matmul"})
"""Families whose kernels read and write several float formats."""
WIDTHS = {"f32": 32, "bf16": 16, "f16": 16}


class Typecasts(RewritePattern):
    """Removes a widening before an op and a narrowing after it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Removes conversions of one op's operands and result."""
        if not isinstance(op, RowOp) or not op.name.startswith("ttir.") or op.ROW.group not in COMPUTING:
            return
        for index, value in enumerate(op.operands):
            before = maker(value, "typecast")
            if before is not None and op.ROW.ttir != "typecast" and widens(before):
                op.operands[index] = before.operands[0]
                rewriter.notify_op_modified(op)
        if op.ROW.ttir == "typecast" and narrows(op):
            producer = maker(op.operands[0])
            if producer is None or producer.ROW.group not in COMPUTING or producer.ROW.ttir == "typecast":
                return
            if read_once(op.operands[0]) and is_float(producer.operands[0]):
                result: SSAValue = rewriter.replace_value_with_new_type(producer.results[0], op.results[0].type)
                assert isinstance(result.type, TensorType)
                rewriter.replace(op, [], [result])


def widens(op: RowOp) -> bool:
    """Whether a typecast is lossless, from 16 bits to 32."""
    return _width(op.operands[0]) == 16 and _width(op.results[0]) == 32


def narrows(op: RowOp) -> bool:
    """Whether a typecast goes from 32 bits to 16."""
    return _width(op.operands[0]) == 32 and _width(op.results[0]) == 16


def _width(value: SSAValue) -> int | None:
    return WIDTHS.get(str(element(value)))
