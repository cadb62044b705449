"""Modules whose arguments have bounded sizes, at these bounds: what a compiler that places its buffers early runs."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.base.stablehlo.bounded_shapes import BOUNDED, at_bounds
from opscope.harness.prepare.mlir.door import Module, context
from opscope.harness.prepare.mlir.file_models import entry

SET = "stablehlo.set_dimension_size"


def sized_as_it_runs(module: Module, where: str) -> bool:
    """Whether the entry has results of a size that its operands' sizes do not decide; XLA gives these at their bounds,
    elements packed."""
    results = entry(module, where).attributes["function_type"].value.results
    return any("?" in str(kind) for kind in results)


def with_bounds(module: Module, where: str) -> Module:
    """The module with every bounded size set to its bound; itself where its entry takes none or it sets sizes at run
    time, whose values then stay dynamic."""
    if not any(BOUNDED.search(str(value.type)) for value in entry(module, where).regions[0].blocks[0].arguments):
        return module
    text = str(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True))
    if SET in text:
        return module
    with context():
        try:
            return ir.Module.parse(at_bounds(text))
        except ir.MLIRError:  # an op that is not valid there: its values stay dynamic
            return module
