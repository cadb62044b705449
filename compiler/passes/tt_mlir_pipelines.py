"""tt-mlir's names of whole pipelines, and what their options mean here.

A test or script that was written for `ttmlir-opt` can be pointed at `opscope opt`. An option of tt-mlir is either one
of ours, or its one value here is what this compiler does anyway; every other value is refused, never ignored.
"""

from __future__ import annotations

from xdsl.utils.arg_spec import ArgSpec

from compiler.errors import CompilerInputError
from compiler.options import OPTIMIZATION_LEVELS, CompileOptions

FRONT, BACKEND = "stablehlo-to-ttir-pipeline", "ttir-to-ttnn-backend-pipeline"
OFF = ("false",)
FIXED: dict[str, tuple[str, ...]] = {
    "system-desc-path": ("",),
    "mesh-shape": ("1", "1,1"),
    "enable-optimizer": OFF,
    "memory-layout-analysis-enabled": OFF,
    "enable-bfp8-conversion": OFF,
    "enable-const-eval": OFF,
    "enable-erase-inverse-ops-pass": OFF,
    "enable-fusing-pass": OFF,
    "enable-implicit-broadcast-folding-pass": OFF,
    "enable-trace": OFF,
}
"""Options of the backend pipeline that have no choice here -> what may be given."""
BOARD, FIDELITY, FORMAT = "mock-system-desc-arch", "compute-cfg-math-fidelity", "data-format"
LEVEL, TYPES = "optimization-level", "argument-types"
CHOICES = (BOARD, FIDELITY, FORMAT, LEVEL, TYPES)
"""Options that choose something; `data-format` is ours."""


def backend_options(spec: ArgSpec) -> tuple[str, CompileOptions]:
    """(board or arch, options) of a `BACKEND` pipeline. Raises CompilerInputError for what we have not."""
    given = {name.replace("_", "-"): ",".join(map(_spelled, v)) for name, v in spec.parameters.items()}
    for name, value in given.items():
        if name not in FIXED and name not in CHOICES:
            known = ", ".join((*CHOICES, *FIXED))
            raise CompilerInputError(f"{spec.name}: expected an option that exists, got {name!r}; try {known}")
        if name in FIXED and value not in FIXED[name]:
            expected = " or ".join(word or "nothing" for word in FIXED[name])
            hint = f"; try {BOARD}" if name == "system-desc-path" else ""
            raise CompilerInputError(f"{spec.name}: {name}: expected {expected}, got {value!r}{hint}")
    level = given.get(LEVEL, "0")
    if level not in map(str, OPTIMIZATION_LEVELS):
        raise CompilerInputError(f"{spec.name}: {LEVEL}: expected 0, 1 or 2, got {level!r}")
    types = given.get(TYPES, "").partition("=")[2]
    options = CompileOptions(
        given.get(FORMAT),
        given.get(FIDELITY, "HiFi4"),
        optimization_level=int(level),
        argument_types=tuple(types.split(",")) if types else (),
    )
    return given.get(BOARD, "n150"), options


def no_options(spec: ArgSpec) -> None:
    """Raises CompilerInputError where a pipeline without options is given some."""
    if spec.parameters:
        raise CompilerInputError(f"{spec.name}: expected no options, got {', '.join(spec.parameters)}")


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
