"""`ttcore.load_cached`: the results of a function that is computed once for the same arguments, on ttir and on ttnn."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import device_op_class
from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import SYMBOL
from opscope.compiler.ops.row import PLAIN, OpRow
from opscope.compiler.target.program import ControlParams

ROW = OpRow(
    "",
    "load_cached",
    group="control",
    arity=None,
    dtypes=PLAIN,
    shape_rule=shapes.unchecked,
    attrs={"callee": SYMBOL},
    params=lambda a, op: ControlParams((a["callee"],)),
    lowering="device",
)
LoadCachedOp = device_op_class("ttcore", "load_cached", ROW)
"""Names its function by `callee`. Not in the op table: no StableHLO op becomes it, passes make it."""


__all__ = ["ROW", "LoadCachedOp"]
