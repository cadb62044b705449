"""What a board is: the system description that a program is compiled for and that the simulator plays.

One YAML file per board in `boards/`, each with two profiles: `ttnn` and `buda` (the two worlds publish different
grids and memory budgets for the same chip).
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import read_yaml

BOARDS = Path(__file__).parent / "boards"
DEFAULT_BOARD = {"grayskull": "e150", "wormhole_b0": "n150", "blackhole": "p150"}
"""The board meant by an arch alone."""
_ARCH_ALIASES = {"wormhole": "wormhole_b0"}


@dataclass(frozen=True)
class Profile:
    """One world's view of the chip: grid and memory budgets. Sizes in bytes."""

    name: str
    grid: tuple[int, int]
    """Rows and columns of cores that programs may use."""
    l1_bytes: int
    l1_unreserved_base: int
    """First L1 address that a program may use."""
    dram_channels: int
    dram_channel_bytes: int
    dram_unreserved_base: int
    l1_alignment: int
    dram_alignment: int
    tile_header_bytes: int

    @property
    def l1_usable(self) -> int:
        """Bytes of L1 per core for tensors and circular buffers."""
        return self.l1_bytes - self.l1_unreserved_base

    @property
    def cores(self) -> int:
        """Number of cores of the grid."""
        return self.grid[0] * self.grid[1]

    @property
    def dram_usable(self) -> int:
        """Bytes of DRAM per channel for tensors."""
        return self.dram_channel_bytes - self.dram_unreserved_base


@dataclass(frozen=True)
class SystemDesc:
    """One board."""

    board: str
    arch: str
    clock_ghz: float
    chips: int
    physical_grid: tuple[int, int]
    """Rows and columns of Tensix cores on the die."""
    harvested_rows: tuple[int, ...]
    formats: tuple[str, ...]
    """Number formats its tensors may have."""
    dst_formats: tuple[str, ...]
    """Formats of its Dst register; without `Float32` it accumulates in 16 bits only."""
    cycles_per_tile_matmul: int
    """Cycles of one fidelity phase over a 32x32x32 tile product."""
    noc_bytes_per_clock: int
    dram_gb_per_s: float
    dram_efficiency: float
    """Measured share of the peak that reads reach."""
    ttnn: Profile
    buda: Profile

    @property
    def has_fp32_dst(self) -> bool:
        """Whether Dst can hold 32 bits per datum."""
        return "Float32" in self.dst_formats

    def profile(self, name: str) -> Profile:
        """The profile `ttnn` or `buda`. Raises ValueError for another name."""
        if name not in ("ttnn", "buda"):
            raise ValueError(f"profile: expected ttnn or buda, got {name!r}")
        return self.ttnn if name == "ttnn" else self.buda


@functools.cache
def boards() -> tuple[str, ...]:
    """Names of all boards, sorted."""
    return tuple(sorted(path.stem for path in BOARDS.glob("*.yaml")))


def resolve_arch(name: str) -> str:
    """The board meant by `name`, a board or an arch. Raises ValueError with the closest names."""
    key = _ARCH_ALIASES.get(name.lower(), name.lower())
    if key in boards():
        return key
    if key in DEFAULT_BOARD:
        return DEFAULT_BOARD[key]
    known = [*boards(), *DEFAULT_BOARD]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.4)
    raise ValueError(f"arch: expected a board or an arch, got {name!r}; try {', '.join(near or known)}")


@functools.cache
def load_board(name: str) -> SystemDesc:
    """The system description of board or arch `name`. Raises ValueError for an unknown one."""
    path = BOARDS / f"{resolve_arch(name)}.yaml"
    raw: dict[str, Any] = read_yaml(path)
    ttnn, buda = (_profile(world, raw.pop(world)) for world in ("ttnn", "buda"))
    for key in ("physical_grid", "harvested_rows", "formats", "dst_formats"):
        raw[key] = tuple(raw[key])
    return SystemDesc(**raw, ttnn=ttnn, buda=buda)


def _profile(name: str, raw: dict[str, Any]) -> Profile:
    alignment = raw.pop("alignment")
    grid = (raw["grid"][0], raw["grid"][1])
    return Profile(
        **{**raw, "name": name, "grid": grid, "l1_alignment": alignment["l1"], "dram_alignment": alignment["dram"]}
    )
