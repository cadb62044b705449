"""Control flow: a choice of functions, and loops that count."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import ControlParams, FullParams, TensorDesc
from opscope.compiler.tt_mlir.calls.call import Emit, emits

BOUNDS = ("initial", "limit", "step")


@emits("ttcore.case")
def case(emit: Emit) -> None:
    """The function of that number, the last one if there is none."""
    emit.call("case", emit.inputs, emit.results, ControlParams(emit.attributes["branch_programs"]))
