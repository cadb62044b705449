"""StableHLO in tt-mlir's words: named ops where `stablehlo-to-ttir` keeps its own, more general forms.

`stablehlo-to-ttir{named=true}` tries these patterns first. What they emit is read by `ttir-to-ttir-decomposition`.
"""

from opscope.compiler.passes.stablehlo_to_ttir.named import (  # noqa: F401 - each fills NAMED
    batch_norm,
    complex_numbers,
    composites,
    convolution,
    custom_call,
    eltwise,
    gather,
    random,
    reductions,
    scatter,
    slices,
    windows,
)
