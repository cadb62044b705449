"""ttir ops without a kernel: `ttir-to-ttir-decomposition` rewrites them before `ttir-to-ttnn`."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import device_op_class
from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import I64S
from opscope.compiler.ops.row import NUMBER, OpRow

DOT_GENERAL = OpRow(
    "",
    "dot_general",
    group="matmul",
    arity=2,
    dtypes=NUMBER,
    shape_rule=shapes.unchecked,
    attrs={
        "batch_dims_lhs": I64S,
        "batch_dims_rhs": I64S,
        "contract_dims_lhs": I64S,
        "contract_dims_rhs": I64S,
    },
    lowering="device",
)
DotGeneralOp = device_op_class("ttir", "dot_general", DOT_GENERAL)
"""A contraction over any dims. Not in the op table, whose rows name kernels."""

__all__ = ["DOT_GENERAL", "DotGeneralOp"]
