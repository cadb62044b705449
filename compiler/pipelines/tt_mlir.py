"""tt-mlir's names of whole pipelines, and what their options mean here.

A test or script that was written for `ttmlir-opt` can be pointed at `opscope opt`. An option of tt-mlir is either one
of ours, or its one value here is what this compiler does anyway; every other value is refused, never ignored.
"""

from __future__ import annotations

from xdsl.utils.arg_spec import ArgSpec

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.options import OPTIMIZATION_LEVELS, CompileOptions

FRONT, BACKEND = "stablehlo-to-ttir-pipeline", "ttir-to-ttnn-backend-pipeline"
CONVERSION = "convert-stablehlo-to-ttir"
"""tt-mlir's name of the pass that is `stablehlo-to-ttir{named=true}` here."""
STABLEHLO = "stablehlo-pipeline"
"""tt-mlir's pipeline that propagates shardings. A module without any goes through it unchanged."""
PIPELINES = (FRONT, CONVERSION, STABLEHLO, BACKEND)
OFF = ("false",)
FIXED: dict[str, tuple[str, ...]] = {
    "system-desc-path": ("",),
    "mesh-shape": ("1", "1,1"),
    "row-major-enabled": OFF,
    "enable-bfp8-conversion": OFF,
    "enable-cpu-hoisted-const-eval": OFF,
    "enable-trace": OFF,
    "disable-workarounds": OFF,
    "ttnn-perf-metrics-enabled": OFF,
}
"""Options of the backend pipeline that have no choice here -> what may be given."""
BOARD, FIDELITY, FORMAT = "mock-system-desc-arch", "compute-cfg-math-fidelity", "data-format"
APPROX = "compute-cfg-math-approx-mode"
LEVEL, TYPES = "optimization-level", "argument-types"
OPTIMIZER, MEMORY = "enable-optimizer", "memory-layout-analysis-enabled"
LEVEL_OF = {OPTIMIZER: 1, MEMORY: 2}
"""tt-mlir's older words for levels, and from which level on each is true."""
SWITCHES: dict[str, tuple[str, ...]] = {
    "enable-const-eval": ("const-eval-hoist-transform",),
    "enable-erase-inverse-ops-pass": ("ttir-erase-inverse-ops",),
    "enable-fusing-pass": ("ttir-fusing", "ttnn-fusing"),
    "enable-implicit-broadcast-folding-pass": ("ttir-implicit-broadcast-fold",),
    "enable-remove-dead-values": ("dce",),
}
"""Options that add passes, or leave them out, whatever the level says."""
CHOICES = (BOARD, FIDELITY, APPROX, FORMAT, LEVEL, TYPES, OPTIMIZER, MEMORY, *SWITCHES)
"""Options that choose something; `data-format` is ours."""


def backend_options(spec: ArgSpec) -> tuple[str, CompileOptions, dict[str, bool]]:
    """(board or arch, options, pass -> whether it runs) of a `BACKEND` pipeline.

    Raises CompilerInputError for what we have not.
    """
    values = {name.replace("_", "-"): ",".join(map(_spelled, v)) for name, v in spec.parameters.items()}
    for name, value in values.items():
        if name not in FIXED and name not in CHOICES:
            known = ", ".join((*CHOICES, *FIXED))
            raise CompilerInputError(f"{spec.name}: expected an option that exists, got {name!r}; try {known}")
        if name in FIXED and value not in FIXED[name]:
            expected = " or ".join(word or "nothing" for word in FIXED[name])
            hint = f"; try {BOARD}" if name == "system-desc-path" else ""
            raise CompilerInputError(f"{spec.name}: {name}: expected {expected}, got {value!r}{hint}")
    flags = {
        name: _flag(spec.name, name, values[name]) for name in (OPTIMIZER, MEMORY, APPROX, *SWITCHES) if name in values
    }
    older = flags.get(OPTIMIZER, False) + (flags.get(OPTIMIZER, False) and flags.get(MEMORY, False))
    level = values.get(LEVEL, str(older))
    if level not in map(str, OPTIMIZATION_LEVELS):
        raise CompilerInputError(f"{spec.name}: {LEVEL}: expected 0, 1 or 2, got {level!r}")
    if LEVEL in values and any(
        flags.get(name, int(level) >= at) != (int(level) >= at) for name, at in LEVEL_OF.items()
    ):
        raise CompilerInputError(f"{spec.name}: expected {LEVEL} or {OPTIMIZER}, got both, which differ")
    types = values.get(TYPES, "").partition("=")[2]
    options = CompileOptions(
        values.get(FORMAT),
        values.get(FIDELITY, "HiFi4"),
        optimization_level=int(level),
        argument_types=tuple(types.split(",")) if types else (),
        math_approx=flags.get(APPROX, False),
    )
    runs = {pass_name: flags[name] for name, passes in SWITCHES.items() if name in flags for pass_name in passes}
    return values.get(BOARD, "n150"), options, runs


def _flag(pipeline: str, name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise CompilerInputError(f"{pipeline}: {name}: expected true or false, got {value!r}")
    return value == "true"


SIMPLIFIED = "enable-aggressive-simplification"
"""Option of the front pipeline that adds StableHLO's own simplification, as tt-xla does."""
FRONT_FIXED: dict[str, tuple[str, ...]] = {
    "enable-arith-to-stablehlo": ("true",),
    "enable-composite-to-call": ("true",),
    "enable-remove-dead-values": ("true",),
    SIMPLIFIED: ("true", "false"),
}
"""Options of the front pipeline -> what may be given; all but one have no choice here."""
SHARDING_FIXED: dict[str, tuple[str, ...]] = {"mesh-shape": ("1", "1,1"), "automatic-arg-analysis": OFF}


def front_options(spec: ArgSpec) -> bool:
    """Whether the front pipeline simplifies. Raises CompilerInputError for an option that asks for what it lacks."""
    _only(spec, FRONT_FIXED)
    values = {name.replace("_", "-"): ",".join(map(_spelled, words)) for name, words in spec.parameters.items()}
    return values.get(SIMPLIFIED) == "true"


def sharding_options(spec: ArgSpec) -> None:
    """Raises CompilerInputError for an option of the sharding pipeline that asks for something."""
    _only(spec, SHARDING_FIXED)


def _only(spec: ArgSpec, fixed: dict[str, tuple[str, ...]]) -> None:
    for name, values in spec.parameters.items():
        key, value = name.replace("_", "-"), ",".join(map(_spelled, values))
        if key not in fixed:
            raise CompilerInputError(
                f"{spec.name}: expected an option that exists, got {key!r}; try {', '.join(fixed)}"
            )
        if value not in fixed[key]:
            raise CompilerInputError(f"{spec.name}: {key}: expected {' or '.join(fixed[key])}, got {value!r}")


def no_options(spec: ArgSpec) -> None:
    """Raises CompilerInputError if a pipeline without options is given some."""
    if spec.parameters:
        raise CompilerInputError(f"{spec.name}: expected no options, got {', '.join(spec.parameters)}")


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
