"""The passes that prepare TTIR for the Buda graph; each tuple is one of TT-Buda's steps."""

from __future__ import annotations

import warnings

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import OpResult
from xdsl.passes import ModulePass

from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.ir.functions import functions
from opscope.compiler.passes.ttir_conv_fracture import TtirConvFracture
from opscope.compiler.passes.ttir_conv_prestride import TtirConvPrestride
from opscope.compiler.passes.ttir_conv_weight_gradient import TtirConvWeightGradient
from opscope.compiler.passes.ttir_decompose_buda import TtirDecomposeBuda
from opscope.compiler.passes.ttir_epoch_types import TtirEpochTypes
from opscope.compiler.passes.ttir_erase_inverse_ops import TtirEraseInverseOps
from opscope.compiler.passes.ttir_unroll_loops import TtirUnrollLoops
from opscope.compiler.passes.ttir_unstable_softmax import TtirUnstableSoftmax
from opscope.compiler.pipelines.pipeline import run
from opscope.compiler.translations.ttir_to_graph.arguments import NO_CONSTEVAL
from opscope.compiler.translations.ttir_to_graph.lowering import lowered

PRODUCTS = frozenset({"matmul", "conv2d"})
"""What a plan leaves to no host."""


def legalise(module: ModuleOp, prestride: bool = True, stable_softmax: bool = True) -> None:
    """Prepares a TTIR module for the Buda graph, in place: depths OPTIMIZED_GRAPH to POST_AUTOGRAD_PASS."""
    run((*optimizing(stable_softmax), *marking(), *decomposing(all_inputs=False, prestride=prestride)), module)


def optimizing(stable_softmax: bool = True) -> tuple[ModulePass, ...]:
    """OPTIMIZED_GRAPH: unrolls loops, and removes movements that cancel.

    Without `stable_softmax` (TT-Buda's `enable_stable_softmax`) no softmax subtracts its maximum.
    """
    unstable = () if stable_softmax else (TtirUnstableSoftmax(),)
    return (TtirUnrollLoops(), *unstable, TtirEraseInverseOps(sink=False))


def marking(only: str = "") -> tuple[ModulePass, ...]:
    """AUTOGRAD: separates forward, backward and optimizer ops; `only`: the program is all of that kind."""
    return (TtirEpochTypes(only),)


def decomposing(all_inputs: bool, prestride: bool = True) -> tuple[ModulePass, ...]:
    """POST_AUTOGRAD_PASS: decomposes into TT-Buda's ops, and removes movements that cancel now.

    With `prestride` (TT-Buda's `enable_conv_prestride`) the host rearranges the images of strided convolutions.
    """
    convolutions = (*([TtirConvPrestride(all_inputs)] if prestride else []), TtirConvFracture(all_inputs))
    decomposed = (TtirConvWeightGradient(all_inputs), *convolutions, TtirDecomposeBuda(all_inputs))
    return (*decomposed, TtirEraseInverseOps(sink=False))


def lower(
    module: ModuleOp,
    name: str,
    prestride: bool = True,
    stable_softmax: bool = True,
    consteval: bool = True,
    fallback: bool = False,
) -> BudaGraph:
    """Returns the graph of a TTIR module's entry function, which is legalised in place. Raises StageFailure.

    With `fallback` ops that no card computes, and what needs their results, are left out of it, with a warning: the
    host computes them after the card. Products and convolutions may not be among them.
    """
    if not consteval:
        functions(module)[0].attributes[NO_CONSTEVAL] = UnitAttr()
    legalise(module, prestride=prestride, stable_softmax=stable_softmax)
    lowering = lowered(module, name, fallback=fallback)
    if lowering.refused:
        left = {value.owner.name.removeprefix("ttir.") for value in lowering.rest if isinstance(value, OpResult)}
        if left & PRODUCTS or not lowering.rest_inputs:
            raise next(iter(lowering.refused.values()))
        first = list(dict.fromkeys(op.name.removeprefix("ttir.") for op in lowering.refused))
        others = ", ".join(sorted(left.difference(first)))
        warnings.warn(
            f"{name}: the host computes after the card what no card computes: {', '.join(first)}"
            + (f"; and what needs it: {others}" if others else ""),
            stacklevel=2,
        )
    return lowering.builder.graph()
