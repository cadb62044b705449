"""What a caller may ask of the compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompileOptions:
    """Options of `compiler.api.compile` and of each step."""

    data_format: str | None = None
    """Format in which the device computes and stores floats; None: the module's own types."""
    math_fidelity: str = "HiFi4"
    dump_dir: str | None = None
    """Folder for the IR after each stage."""
