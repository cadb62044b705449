"""What is done to TTIR before it becomes a Buda graph: each tuple of passes is one of TT-Buda's steps."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.passes.ttir_decompose_buda import TtirDecomposeBuda
from opscope.compiler.passes.ttir_epoch_types import TtirEpochTypes
from opscope.compiler.passes.ttir_erase_inverse_ops import TtirEraseInverseOps
from opscope.compiler.pipelines.pipeline import run
from opscope.compiler.translations.ttir_to_graph.lowering import lowered


def legalise(module: ModuleOp, all_inputs: bool = False) -> None:
    """Takes a TTIR module to where the walk expects it, in place: the depths OPTIMIZED_GRAPH to POST_AUTOGRAD_PASS."""
    run((*optimizing(), *marking(), *decomposing(all_inputs)), module)


def optimizing() -> tuple[ModulePass, ...]:
    """OPTIMIZED_GRAPH: movements that cancel go."""
    return (TtirEraseInverseOps(sink=False),)


def marking() -> tuple[ModulePass, ...]:
    """AUTOGRAD: forward, backward and optimizer ops apart."""
    return (TtirEpochTypes(),)


def decomposing(all_inputs: bool) -> tuple[ModulePass, ...]:
    """POST_AUTOGRAD_PASS: in terms of TT-Buda's ops; movements that cancel now go."""
    return (TtirDecomposeBuda(all_inputs), TtirEraseInverseOps(sink=False))


def lower(module: ModuleOp, name: str, fidelity: str = "HiFi3", data_format: str = "Float16_b") -> BudaGraph:
    """The graph of a TTIR module's entry function, which is legalised in place. Raises StageFailure."""
    legalise(module)
    return lowered(module, name, fidelity, data_format).builder.graph()
