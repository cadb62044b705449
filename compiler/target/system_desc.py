"""What a board is: the system description that a program is compiled for and that the simulator plays.

One YAML file per board in `boards/`, each with two profiles: `ttnn` and `buda` (the two worlds publish different
grids and memory budgets for the same chip).
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opscope.compiler.target.board_file import read_board
from opscope.compiler.target.runtime_facts import RuntimeFacts, runtime_facts

BOARDS = Path(__file__).parent / "boards"
DEFAULT_BOARD = {"grayskull": "e150", "wormhole_b0": "n150", "blackhole": "p150"}
"""The board meant by an arch alone."""
MOST_CHIPS = 32
"""Chips that a plan may use: a Galaxy has as many."""
_ARCH_ALIASES = {"wormhole": "wormhole_b0", "llmbox": "t3000", "n300-llmbox": "t3000"}


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
    l1_banks: int = 16
    """Banks of SRAM of which one L1 is made (tt-isa-documentation, L1.md)."""
    l1_regions: tuple[tuple[str, int], ...] = ()
    """What the addresses below `l1_unreserved_base` are for: name and bytes, in order."""

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
class Ethernet:
    """One link between two chips, as the board's file says with its source."""

    gb_per_s: float
    """What one direction was measured to carry."""
    hop_ns: float
    """What a small packet was measured to take from chip to chip, its way over both chips' NoC included."""


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
    ethernet: Ethernet | None = None
    """None for a board whose chips have no links of their own."""
    runtime: RuntimeFacts | None = None
    """None for a board that tt-mlir does not know."""

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


def board_with(chips: int) -> str | None:
    """Name of the smallest board with at least so many chips, if there is one."""
    large = [(board.chips, name) for name in boards() if (board := load_board(name)).chips >= chips]
    return min(large)[1] if large else None


HARVESTABLE_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)
"""Physical NoC rows that hold cores; bit 1 << row of a harvest mask switches one off (tt-umd, tt-buda)."""
_MASK = "-harvested-"


def rows_of_mask(mask: int) -> tuple[int, ...]:
    """The rows of cores, counted from 0, that a harvest mask names. Raises ValueError for a row without cores."""
    rows = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    for row in rows:
        if row not in HARVESTABLE_ROWS:
            raise ValueError(f"harvested rows: expected rows 1-5 and 7-11, got {row} (mask {mask})")
    return tuple(HARVESTABLE_ROWS.index(row) for row in rows)


def harvested(board: SystemDesc, mask: int) -> SystemDesc:
    """`board` with just the rows of a mask switched off, in both profiles; its name says so.

    Grayskull loses these rows; on Wormhole and Blackhole, whose NoC translates coordinates, the last rows go
    (tt-buda). TTNN keeps the rows that it sets aside for itself, for dispatch; TT-Buda has all others.
    Raises ValueError for a row without cores, or if none would be left.
    """
    named = rows_of_mask(mask)
    count = len(named)
    rows = named if board.arch == "grayskull" else tuple(range(board.physical_grid[0]))[-count:] if count else ()
    ttnn = board.ttnn.grid[0] + len(board.harvested_rows) - count
    buda = board.physical_grid[0] - count
    left = min(ttnn, buda)
    if left < 1:
        raise ValueError(f"harvested rows: expected fewer than {count + left}, got {count} (mask {mask})")
    return replace(
        board,
        board=f"{board.board}{_MASK}{mask}",
        harvested_rows=rows,
        ttnn=replace(board.ttnn, grid=(ttnn, board.ttnn.grid[1])),
        buda=replace(board.buda, grid=(buda, board.buda.grid[1])),
    )


def also_harvested(board: SystemDesc, mask: int) -> SystemDesc:
    """`board` without the rows of a mask, and without those that its name says are switched off already.

    Raises ValueError for a row without cores, or if none would be left.
    """
    own, named = _split_mask(board.board)
    return harvested(load_board(own), mask | (named or 0)) if mask else board


def base_and_mask(name: str) -> tuple[str, int]:
    """A board's own name, and the mask of the rows that are switched off: as its full name says, or as they come."""
    own, mask = _split_mask(resolve_arch(name))
    if mask is None:
        mask = sum(1 << HARVESTABLE_ROWS[row] for row in load_board(own).harvested_rows)
    return own, mask


def holds_rows(arch: str, device: int, wanted: int) -> bool:
    """Whether a chip with the rows of mask `device` switched off has every row of a plan for the mask `wanted`.

    On Grayskull a row is a row; elsewhere the NoC translates coordinates, so that only their number counts (tt-buda).
    """
    return not device & ~wanted if arch == "grayskull" else device.bit_count() <= wanted.bit_count()


def _split_mask(name: str) -> tuple[str, int | None]:
    """The board's own name and the harvest mask after it, if there is one. Raises ValueError if that is no number."""
    own, separator, mask = name.lower().partition(_MASK)
    if not separator:
        return own, None
    try:
        return own, int(mask, 0)
    except ValueError:
        raise ValueError(f"arch: expected a harvest mask after {_MASK}, got {mask!r}; try {own}{_MASK}2050") from None


def resolve_arch(name: str) -> str:
    """The board meant by `name`, a board or an arch, perhaps with a harvest mask (`n150-harvested-2052`).

    Raises ValueError with the closest names.
    """
    own, mask = _split_mask(name)
    key = _ARCH_ALIASES.get(own, own)
    suffix = "" if mask is None else f"{_MASK}{mask}"
    if key in boards():
        return key + suffix
    if key in DEFAULT_BOARD:
        return DEFAULT_BOARD[key] + suffix
    known = [*boards(), *DEFAULT_BOARD]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.4)
    raise ValueError(f"arch: expected a board or an arch, got {name!r}; try {', '.join(near or known)}")


@functools.cache
def load_board(name: str) -> SystemDesc:
    """The system description of board or arch `name`. Raises ValueError for an unknown one or a file that is none."""
    own, mask = _split_mask(resolve_arch(name))
    if mask is not None:
        return harvested(load_board(own), mask)
    return load_board_file(BOARDS / f"{own}.yaml")


def load_board_file(path: Path) -> SystemDesc:
    """The system description in a board file, which may be like a board of ours.

    Raises ValueError for a file that is none, OSError for one that cannot be read.
    """
    raw = read_board(path, BOARDS)
    ttnn, buda = (_profile(world, raw.pop(world)) for world in ("ttnn", "buda"))
    for key in ("physical_grid", "harvested_rows", "formats", "dst_formats"):
        raw[key] = tuple(raw[key])
    ethernet = Ethernet(**raw.pop("ethernet")) if "ethernet" in raw else None
    runtime_rows = raw.pop("runtime", None)
    runtime = runtime_facts(f"{path.name}: runtime", runtime_rows, raw["chips"]) if runtime_rows is not None else None
    return SystemDesc(**raw, ttnn=ttnn, buda=buda, ethernet=ethernet, runtime=runtime)


def _profile(name: str, raw: dict[str, Any]) -> Profile:
    alignment = raw.pop("alignment")
    grid = (raw["grid"][0], raw["grid"][1])
    regions = tuple(raw.pop("l1_regions").items())
    return Profile(
        **{
            **raw,
            "name": name,
            "grid": grid,
            "l1_alignment": alignment["l1"],
            "dram_alignment": alignment["dram"],
            "l1_regions": regions,
        }
    )
