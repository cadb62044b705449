"""The functions of a module."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp


def functions(module: ModuleOp) -> list[FuncOp]:
    """All functions at the module's top level, in order; none of a module that was parsed empty."""
    return [op for block in module.body.blocks for op in block.ops if isinstance(op, FuncOp)]
