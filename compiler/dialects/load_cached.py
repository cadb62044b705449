"""`ttcore.load_cached` returns results of a function that is computed once per set of arguments, in ttir and ttnn."""

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
"""Refers to its function by `callee`. It is not in the op table, since only passes create it, not StableHLO ops."""


__all__ = ["ROW", "LoadCachedOp"]
