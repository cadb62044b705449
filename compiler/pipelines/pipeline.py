"""Builds the pipeline for a set of options, and parses and runs pipeline strings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from opscope.compiler import passes
from opscope.compiler.errors import CompilerInputError, noted
from opscope.compiler.ir.context import context
from opscope.compiler.options import OPTIMIZATION_LEVELS, UNSUPPORTED_TYPES
from opscope.compiler.passes.const_eval_hoist_transform import ConstEvalHoistTransform
from opscope.compiler.passes.inline import Inline
from opscope.compiler.passes.legalize_stablehlo_composite_to_ttir import LegalizeStablehloCompositeToTtir
from opscope.compiler.passes.stablehlo_aggressive_simplification import StablehloAggressiveSimplification
from opscope.compiler.passes.stablehlo_host_fallback import StablehloHostFallback
from opscope.compiler.passes.stablehlo_to_ttir import StablehloToTtir
from opscope.compiler.passes.tt_populate_argument_types import TtPopulateArgumentTypes
from opscope.compiler.passes.ttir_erase_inverse_ops import TtirEraseInverseOps
from opscope.compiler.passes.ttir_fusing import TtirFusing
from opscope.compiler.passes.ttir_implicit_broadcast_fold import TtirImplicitBroadcastFold
from opscope.compiler.passes.ttir_narrow_indices import TtirNarrowIndices
from opscope.compiler.passes.ttir_to_ttir_decomposition import TtirToTtirDecomposition
from opscope.compiler.passes.ttir_to_ttnn import TtirToTtnn
from opscope.compiler.passes.ttnn_compute_config import TtnnComputeConfig
from opscope.compiler.passes.ttnn_deallocate import TtnnDeallocate
from opscope.compiler.passes.ttnn_fusing import TtnnFusing
from opscope.compiler.passes.ttnn_mixed_precision import TtnnMixedPrecision
from opscope.compiler.passes.ttnn_optimizer import TtnnOptimizer
from opscope.compiler.passes.ttnn_workaround import TtnnWorkaround
from opscope.compiler.pipelines.tt_mlir import (
    BACKEND,
    CONVERSION,
    FRONT,
    PIPELINES,
    STABLEHLO,
    backend_options,
    front_options,
    no_options,
    sharding_options,
)
from opscope.compiler.pipelines.verification import Verification

if TYPE_CHECKING:
    from opscope.compiler.options import CompileOptions


def ttir_passes(unsupported_types: str = "fail", board: str = "n150") -> tuple[ModulePass, ...]:
    """Returns the passes of stage `stablehlo-to-ttir`. Raises CompilerInputError for an unknown word."""
    if unsupported_types not in UNSUPPORTED_TYPES:
        raise CompilerInputError(
            f"unsupported types: expected {' or '.join(UNSUPPORTED_TYPES)}, got {unsupported_types!r}"
        )
    host = (StablehloHostFallback(board=board),) if unsupported_types == "fallback" else ()
    return (
        LegalizeStablehloCompositeToTtir(),
        Inline(),
        *host,
        StablehloToTtir(),
        TtirToTtirDecomposition(),
        TtirNarrowIndices(),
    )


def ttnn_passes(board: str, options: CompileOptions, runs: dict[str, bool] | None = None) -> tuple[ModulePass, ...]:
    """The passes of stage `ttir-to-ttnn`; `runs` says by name of some that they do or do not, whatever the level.

    Raises CompilerInputError for an unknown level.
    """
    if options.optimization_level not in OPTIMIZATION_LEVELS:
        known = ", ".join(map(str, OPTIMIZATION_LEVELS))
        raise CompilerInputError(f"optimization level: expected {known}, got {options.optimization_level!r}")
    runs, optimized = runs or {}, options.optimization_level > 0
    graph = tuple(module_pass for module_pass in graph_passes() if runs.get(module_pass.name, optimized))
    return (
        *(_argument_types(options) if graph else ()),
        *graph,
        TtirToTtnn(board=board, data_format=options.data_format),
        *((TtnnFusing(),) if runs.get(TtnnFusing.name, optimized) else ()),
        *((TtnnMixedPrecision(level=options.amp_level),) if options.amp_level else ()),
        TtnnWorkaround(),
        TtnnComputeConfig(
            board=board,
            math_fidelity=options.math_fidelity,
            numerics=options.numerics,
            math_approx_mode=options.math_approx,
            fewest_phases=options.optimization_level > 0,
        ),
        *((TtnnOptimizer(board=board),) if options.optimization_level > 1 else ()),
        TtnnDeallocate(),
    )


def _argument_types(options: CompileOptions) -> tuple[ModulePass, ...]:
    if not options.argument_types:
        return ()
    return (TtPopulateArgumentTypes(argument_types=f"main={','.join(options.argument_types)}"),)


def graph_passes() -> tuple[ModulePass, ...]:
    """Returns the passes of level 1 on ttir, which leave fewer ops that compute the same."""
    return (
        Inline(),
        CanonicalizePass(),
        TtirImplicitBroadcastFold(),
        TtirEraseInverseOps(),
        CommonSubexpressionElimination(),
        TtirFusing(),
        TtirEraseInverseOps(),
        CanonicalizePass(),
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
        ConstEvalHoistTransform(),
    )


def spell(passes: tuple[ModulePass, ...]) -> str:
    """Returns passes as a string that `parse` reads, such as `a,b{x=1}`; options at their defaults are left out."""
    return ",".join(str(p.pipeline_pass_spec()) for p in passes)


def parse(spec: str) -> tuple[ModulePass, ...]:
    """Parses a pipeline string. Raises CompilerInputError for an unknown pass or option."""
    try:
        return tuple(module_pass for part in parse_pipeline(spec) for module_pass in _passes(part))
    except CompilerInputError:
        raise
    except (Exception, ArgSpecParseError) as error:  # xDSL's own is no Exception
        reason = " ".join(str(error).split())
        raise CompilerInputError(
            f"pipeline {spec!r}: expected passes and options that exist, got: {reason}; "
            f"try {', '.join((*passes.names(), *PIPELINES))}"
        ) from error


def _passes(spec: ArgSpec) -> tuple[ModulePass, ...]:
    """Returns the pass of that name, or all passes of the tt-mlir pipeline of that name."""
    if spec.name == FRONT:
        simplified = front_options(spec)
        return (
            LegalizeStablehloCompositeToTtir(named=True),
            Inline(),
            *((StablehloAggressiveSimplification(), DeadCodeElimination()) if simplified else ()),
            StablehloToTtir(named=True),
            CommonSubexpressionElimination(),
            DeadCodeElimination(),
        )
    if spec.name == CONVERSION:
        no_options(spec)
        return (StablehloToTtir(named=True),)
    if spec.name == STABLEHLO:
        sharding_options(spec)
        return ()
    if spec.name == BACKEND:
        return (TtirToTtirDecomposition(), TtirNarrowIndices(), *ttnn_passes(*backend_options(spec)))
    return (passes.load(spec.name).from_spec(spec),)


def run(
    passes: tuple[ModulePass, ...],
    module: ModuleOp,
    before: tuple[ModulePass, ...] = (),
    verify: Verification | None = None,
) -> Verification:
    """Applies the passes in order, in place, and verifies after each that changes something.

    Returns what was verified of the module, which a later run on the same module takes as `verify`. What a pass raises
    has a note of its name and of the pipeline, `before` included, that fails the same way.
    """
    verify = verify or Verification()
    for count, module_pass in enumerate(passes, 1):
        with noted(lambda module_pass=module_pass, count=count: _repro_note(module_pass, (*before, *passes[:count]))):
            module_pass.apply(context(), module)
            verify(module)
    return verify


def _repro_note(failed: ModulePass, passes: tuple[ModulePass, ...]) -> str:
    return f"pass {failed.name} failed; to reproduce: opscope opt -p {shlex.quote(spell(passes))} FILE"
