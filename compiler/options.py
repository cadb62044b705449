"""The options of the compiler."""

from __future__ import annotations

from dataclasses import dataclass

UNSUPPORTED_TYPES = ("fail", "fallback")
"""What can become of an op whose element types the device has not: it is refused, or the host computes it."""

OPTIMIZATION_LEVELS = (0, 1, 2)
"""0: each op by itself, in DRAM; 1: ops are simplified, fused and computed once where they can be; 2: tensors stay in
L1 where they fit, spread as their ops want them."""

ARGUMENT_TYPES = ("input", "parameter", "constant")
"""What an argument may be: new in every run, or the same in all of them."""

WAY_OUT = "; try --unsupported-types=fallback"
"""End of the message of an op that is refused for its types."""


@dataclass(frozen=True)
class CompileOptions:
    """Options of `opscope.compiler.api.compile` and of each step."""

    data_format: str | None = None
    """Format in which the device computes and stores floats; None: the module's own types."""
    math_fidelity: str = "HiFi4"
    """Empty with `numerics` ttnn: that of each op."""
    unsupported_types: str = "fail"
    """One of `UNSUPPORTED_TYPES`."""
    optimization_level: int = 0
    """One of `OPTIMIZATION_LEVELS`."""
    argument_types: tuple[str, ...] = ()
    """One of `ARGUMENT_TYPES` per argument; empty: all are inputs."""
    amp_level: int = 0
    """Automatic mixed precision: 1 has products in block floats, 2 all other floats in 16 bits besides."""
    math_approx: bool = False
    """Whether functions may be the vector unit's approximations (tanh, sigmoid, gelu, exp)."""
    dump_dir: str | None = None
    """Folder for the IR after each stage."""
    numerics: str = "hifi4"
    """One of `opscope.compiler.target.numerics.PROFILES`: how ops compute where nothing else is asked for."""
