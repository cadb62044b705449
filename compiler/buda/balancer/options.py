"""Options of the legalizer: TT-Buda's switches, and overrides per op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opscope.compiler.buda.balancer.shapes import Grid


class NoEffect(UserWarning):
    """An option was set that has no effect here."""


@dataclass(frozen=True)
class OpOverride:
    """Choices that the user has fixed for one op."""

    grid: Grid | None = None
    stream_dir: str = ""
    """r, c, rz, or `n` for no streaming; empty if it is not overridden."""
    stream_shape: tuple[int, int] | None = None
    u_kt: int = 0
    dram_parameters: bool | None = None


@dataclass(frozen=True, eq=False)
class LegalizerOptions:
    """Switches of the legalizer, at TT-Buda's defaults for inference without verification."""

    dram_parameters: bool = True
    """Whether parameters are streamed from DRAM; otherwise they stay in L1 if they fit."""
    enumerate_u_kt: bool = True
    """Whether a legal matmul also yields a model for each smaller divisor of its inner block."""
    single_buffer_fallback: bool = False
    """Whether an output that does not fit twice is held once."""
    streaming: bool = True
    manual_streaming: bool = False
    """Whether only ops with an overridden direction are cut in time."""
    one_row: bool = False
    """Whether grids have only one row of cores."""
    max_matmul_t: int = 0
    """Largest `t` of a legal matmul; 0 for no limit."""
    overrides: Mapping[str, OpOverride] = field(default_factory=dict)
    overrides_may_miss: bool = False
    """Whether an override that leaves its op no model is dropped, with a warning: it was meant for another op."""

    def override(self, name: str) -> OpOverride:
        """Returns the overrides of the op of that name."""
        return self.overrides.get(name, OpOverride())
