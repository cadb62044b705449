"""The passes by name, the pipeline that an option set asks for, and how a pipeline string is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError

from compiler.errors import CompilerInputError
from compiler.ir.context import context
from compiler.passes.stablehlo_to_ttir import StablehloToTtir
from compiler.passes.ttir_narrow_indices import TtirNarrowIndices
from compiler.passes.ttir_to_ttnn import TtirToTtnn
from compiler.passes.ttnn_compute_config import TtnnComputeConfig
from compiler.passes.ttnn_deallocate import TtnnDeallocate

if TYPE_CHECKING:
    from compiler.options import CompileOptions

PASSES: dict[str, type[ModulePass]] = {
    cls.name: cls for cls in (StablehloToTtir, TtirNarrowIndices, TtirToTtnn, TtnnComputeConfig, TtnnDeallocate)
}
"""Pass name -> class."""


def ttir_passes() -> tuple[ModulePass, ...]:
    """The passes of stage `stablehlo-to-ttir`."""
    return (StablehloToTtir(), TtirNarrowIndices())


def ttnn_passes(board: str, options: CompileOptions) -> tuple[ModulePass, ...]:
    """The passes of stage `ttir-to-ttnn`."""
    return (
        TtirToTtnn(board=board, data_format=options.data_format),
        TtnnComputeConfig(board=board, math_fidelity=options.math_fidelity),
        TtnnDeallocate(),
    )


def spell(passes: tuple[ModulePass, ...]) -> str:
    """Passes as a string that `parse` reads: `a,b{x=1}`; options at their default are left out."""
    return ",".join(str(p.pipeline_pass_spec()) for p in passes)


def parse(spec: str) -> tuple[ModulePass, ...]:
    """Passes of a string. Raises CompilerInputError for an unknown pass or option."""
    try:
        return PassPipeline.parse_spec({name: (lambda cls=cls: cls) for name, cls in PASSES.items()}, spec).passes
    except (ValueError, ArgSpecParseError, Exception) as error:
        reason = " ".join(str(error).split())
        raise CompilerInputError(
            f"pipeline {spec!r}: expected passes and options that exist, got: {reason}; try {', '.join(PASSES)}"
        ) from error


def run(passes: tuple[ModulePass, ...], module: ModuleOp) -> None:
    """Applies the passes in order, in place, and verifies after each."""
    for one in passes:
        one.apply(context(), module)
        module.verify()
