"""Pass `ttnn-deallocate`: frees every device tensor right after its last reader."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttnn
from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.ir.functions import SCALAR, functions, kind_of
from opscope.compiler.ops.codec import BOOL as FLAG

_NO = FLAG.encode(False)
"""A tensor that something else still holds stays."""


@dataclass(frozen=True)
class TtnnDeallocate(ModulePass):
    """Frees each tensor after its last reader.

    What is loaded from the cache stays for the next run. The runtime frees host tensors, the caller frees arguments and
    results of a called program, and scalars in registers are never freed.
    """

    name = "ttnn-deallocate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Sweeps each function once: the last op found to use a value is its last reader."""
        for func in functions(op):
            if kind_of(func) != SCALAR:
                _free(func.body.blocks[0])


def _free(block: Block) -> None:
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        if op.name == "ttnn.deallocate":
            return
        for value in [*op.operands, *op.results]:
            encoding = layout.layout_of(value)
            if encoding is not None and encoding.buffer_type != "system_memory":
                last[value] = op
    for value, op in last.items():
        if isinstance(op, ReturnOp) or value in block.args or isinstance(value.owner, LoadCachedOp):
            continue
        freed = ttnn.CLASSES["deallocate"].create(operands=[value], properties={"force": _NO}, location=op.location)
        block.insert_op_after(freed, op)
