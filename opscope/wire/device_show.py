"""`opscope device show --json`."""

from __future__ import annotations

from opscope.compiler.target.system_desc import Ethernet
from opscope.simulator.real_kernels import Apart
from opscope.wire.answer import Answer


class Profile(Answer):
    """One world's view of the chip."""

    grid: tuple[int, int]
    """Rows and columns of cores."""
    l1_bytes: int
    """Of a core."""
    l1_usable: int
    dram_channels: int
    dram_channel_bytes: int
    borrowed: str
    """Which of these figures are another chip's; empty if none is."""


class Profiles(Answer):
    """The figures of ttnn, and those of TT-Buda."""

    ttnn: Profile
    buda: Profile


class Part(Answer):
    """Something that is modelled."""

    what: str
    how: str
    source: str


class MeasuredError(Answer):
    """How far the simulator is from a card, in percent."""

    what: str
    statistic: str
    """`median`, `p95` or `mean` of absolute errors; `one` figure with its sign."""
    percent: float
    rows: int
    against: str


class Bits(Answer):
    """With --exact-order: which bits are those of ttnn's own kernels."""

    same: tuple[str, ...]
    apart: tuple[Apart, ...]


class Board(Answer):
    """What is modelled of a board."""

    board: str
    arch: str
    chips: int
    clock_ghz: float
    harvested_rows: tuple[int, ...]
    formats: tuple[str, ...]
    dst_formats: tuple[str, ...]
    cycles_per_tile_matmul: int
    """Of a product of 32x32x32, per fidelity phase."""
    noc_bytes_per_clock: int
    dram_gb_per_s: float
    dram_efficiency: float
    """The share of it that readers at its banks reach, 0 to 1."""
    dram_interleaved_gb_per_s: tuple[float, float]
    """What all cores together read, and write, of interleaved pages."""
    ethernet: Ethernet | None
    """One link between two chips; null of a board of one."""
    profiles: Profiles
    source: str
    """Where these figures are from."""
    passes_by: str
    """What makes passes over arrays on this machine."""
    modelled: tuple[Part, ...]
    errors: tuple[MeasuredError, ...]
    differences: tuple[str, ...]
    """Where the simulator is known to differ from silicon."""
    bits: Bits | None
    """Null of archs of which no kernels were run."""


PRINTS = Board
