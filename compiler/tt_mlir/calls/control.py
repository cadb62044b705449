"""Calls of other functions of the module."""

from __future__ import annotations

from opscope.compiler.target.program import ControlParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("ttcore.load_cached")
def load_cached(emit: Emit) -> None:
    """Results of a function that is computed once."""
    emit.call("load_cached", emit.inputs, emit.results, ControlParams((emit.attributes["callee"],)))
