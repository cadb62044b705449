"""Options of the legalizer: TT-Buda's switches, and overrides per op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opscope.compiler.buda.balancer.shapes import Grid


@dataclass(frozen=True)
class OpOverride:
    """Choices that the user has fixed for one op."""

    grid: Grid | None = None
    stream_dir: str = ""
    """`n` for none, or r, c, rz."""
    stream_shape: tuple[int, int] | None = None
    u_kt: int = 0
    dram_parameters: bool | None = None


@dataclass(frozen=True, eq=False)
class LegalizerOptions:
    """Switches of the legalizer, at TT-Buda's defaults for inference without verification."""

    dram_parameters: bool = True
    """Parameters are streamed from DRAM; False: they stay in L1 where they fit."""
    enumerate_u_kt: bool = True
    """A legal matmul also yields a model for each smaller divisor of its inner block."""
    single_buffer_fallback: bool = False
    """An output that does not fit twice is held once."""
    streaming: bool = True
    manual_streaming: bool = False
    """Only ops whose direction is overridden are cut in time."""
    one_row: bool = False
    """Grids have one row of cores."""
    max_matmul_t: int = 0
    """Matmuls that stream more often than this are illegal; 0: no limit."""
    overrides: Mapping[str, OpOverride] = field(default_factory=dict)

    def override(self, name: str) -> OpOverride:
        """Returns the overrides of the op of that name."""
        return self.overrides.get(name, OpOverride())
