"""Refuses dynamic ops that remain after shape refinement: their sizes are known only at run time."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.ops.row import TABLE
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers(*(row.stablehlo for row in TABLE if row.group == "dynamic" and row.lowering == "pattern"))
def dynamic(e: Emit) -> SSAValue:
    """Always raises StageFailure."""
    raise e.refuse(
        "expected sizes that are constants, got some known only at run time: a program's buffers are placed when it is "
        "compiled; try to compile for one shape",
        "never",
    )
