"""How a device allocates: what a tensor costs each bank, and first fit.

A buffer is cut into pages (a tile, or a row of a row-major tensor). Interleaved buffers deal their pages to all banks
in turn (DRAM channels, or every core's L1); these allocate in step, so a buffer costs every bank its fullest bank's
share. Sharded buffers lie in the cores of their grid, in each as large as its own shard: cores without a shard keep
their room. A buffer has one address, the lowest that is free in all banks that hold a part of it, as in tt-metal. The
compiler asks the same rules which tensors fit into L1 that the device then allocates by.

An L1 is `Profile.l1_banks` equal banks of SRAM, which serve 16 bytes per clock (tt-isa-documentation,
L1.md). Which address lies in which of them is not published, so nothing here depends on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from opscope.compiler.target.formats import FORMATS, TILE, padded_tiles
from opscope.compiler.target.memory_map import LiveBuffer, MemoryMap
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import Profile


def pages_of(desc: TensorDesc, profile: Profile) -> tuple[int, int]:
    """Number of pages of a tensor and bytes of one, as it lies on the device."""
    fmt = FORMATS[desc.data_format]
    if desc.layout == "tile":
        return padded_tiles(desc.shape), fmt.tile_bytes + profile.tile_header_bytes
    width = desc.shape[-1] if desc.shape else 1
    return math.prod(desc.shape[:-1]), math.ceil(width * fmt.datum_bytes())


def tensor_bytes(desc: TensorDesc, profile: Profile) -> int:
    """Bytes of a tensor on the device, padding included."""
    pages, size = pages_of(desc, profile)
    return pages * size


def tile_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of tiles of a tensor: all dims but the last are rows, the last two are padded to 32."""
    columns = -(-(shape[-1] if shape else 1) // TILE)
    return padded_tiles(shape) // max(columns, 1), columns


def shares(desc: TensorDesc, profile: Profile) -> NDArray[np.int64]:
    """Bytes that a tensor takes in each bank: one number for all DRAM channels, which allocate in step; in L1 one per
    core, row by row of the grid.
    """
    pages, size = pages_of(desc, profile)
    in_dram = desc.buffer_type == "dram"
    align = profile.dram_alignment if in_dram else profile.l1_alignment
    aligned = -(-size // align) * align
    if in_dram:
        return np.array([-(-pages // profile.dram_channels) * aligned])
    if desc.memory_layout == "interleaved" or desc.layout != "tile":
        return np.full(profile.cores, -(-pages // profile.cores) * aligned)
    rows, columns = tile_matrix(desc.shape)
    down, across = (max(n, 1) for n in desc.grid)
    tiles = np.outer(_parts(rows, down), _parts(columns, across))
    out = np.zeros(profile.cores, np.int64)
    if down <= profile.grid[0] and across <= profile.grid[1]:
        out.reshape(profile.grid)[:down, :across] = tiles
    elif tiles.size <= profile.cores:
        # A long row or column of shards goes through the grid core by core.
        out[: tiles.size] = tiles.ravel()
    else:
        return np.full(profile.cores, int(tiles.max()) * aligned)
    return out * aligned


def _parts(length: int, count: int) -> NDArray[np.int64]:
    """Sizes of `count` equal parts of `length`, of which the last may be smaller or empty."""
    part = -(-length // count)
    return np.clip(length - part * np.arange(count), 0, part)


@dataclass(eq=False)
class Buffer:
    """A buffer that has been allocated."""

    address: int
    sizes: NDArray[np.int64]
    """Bytes in each bank; 0 where it has no part."""
    what: str = ""
    since: str = ""

    @property
    def size(self) -> int:
        """Bytes in the fullest bank."""
        return int(self.sizes.max(initial=0))


@dataclass
class Banks:
    """First-fit allocator of the banks of one kind of memory."""

    buffer_type: str
    capacity: int
    """Bytes per bank."""
    count: int = 1
    """Banks that may be filled differently: cores, or 1 where all allocate in step."""
    buffers: list[Buffer] = field(default_factory=list)
    peak: int = 0
    """Most bytes that were in use in one bank."""

    @property
    def used(self) -> NDArray[np.int64]:
        """Bytes allocated now, per bank."""
        return sum((b.sizes for b in self.buffers), np.zeros(self.count, np.int64))

    @property
    def in_use(self) -> int:
        """Bytes allocated now in the fullest bank."""
        return int(self.used.max(initial=0))

    def gaps(self, sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
        """(address, bytes) of the gaps that are free in all banks where `sizes` is not 0."""
        mine = sizes > 0
        taken = sorted((b.address, b.address + int(b.sizes[mine].max(initial=0))) for b in self.buffers)
        gaps, address = [], 0
        for start, end in taken:
            if end > start:
                if start > address:
                    gaps.append((address, start - address))
                address = max(address, end)
        return [*gaps, (address, max(self.capacity - address, 0))]

    def largest_gap(self, sizes: NDArray[np.int64] | None = None) -> int:
        """Bytes of the largest buffer that fits into all banks where `sizes` is not 0; by default into all."""
        return max(size for _, size in self.gaps(np.ones(self.count, np.int64) if sizes is None else sizes))

    def fit(self, sizes: NDArray[np.int64], what: str = "", since: str = "") -> Buffer | None:
        """A new buffer of so many bytes per bank, at the lowest address; None if no gap holds it."""
        size = int(sizes.max(initial=0))
        for address, room in self.gaps(sizes) if size else [(0, 0)]:
            if room >= size:
                buffer = Buffer(address, sizes, what, since)
                if size:
                    self.buffers.append(buffer)
                self.peak = max(self.peak, self.in_use)
                return buffer
        return None

    def free(self, buffer: Buffer) -> None:
        """Gives a buffer back."""
        if buffer in self.buffers:
            self.buffers.remove(buffer)


def l1_of(profile: Profile, capacity: int | None = None) -> Banks:
    """The L1 of all cores, empty; with `capacity` bytes of each."""
    return Banks("l1", profile.l1_usable if capacity is None else capacity, profile.cores)


def map_of(banks: Banks, profile: Profile, sizes: NDArray[np.int64], what: str, since: str) -> MemoryMap:
    """What lies where in `banks` when a buffer of these bytes per bank does not fit."""
    in_l1 = banks.buffer_type == "l1"
    reserved = profile.l1_regions if in_l1 else (("the device's own", profile.dram_unreserved_base),)
    base = sum(size for _, size in reserved)
    live = tuple(LiveBuffer(b.what, b.since, base + b.address, b.size, _held(b, profile, in_l1)) for b in banks.buffers)
    mine = sizes > 0 if (sizes > 0).any() else np.ones_like(sizes, bool)
    return MemoryMap(
        banks.buffer_type,
        profile.cores if in_l1 else profile.dram_channels,
        base + banks.capacity,
        reserved,
        live,
        LiveBuffer(what, since, 0, int(sizes.max(initial=0)), _held(Buffer(0, sizes), profile, in_l1)),
        banks.capacity - int(banks.used[mine].max()),
        banks.largest_gap(mine.astype(np.int64)),
    )


def _held(buffer: Buffer, profile: Profile, in_l1: bool) -> int:
    return int((buffer.sizes > 0).sum()) if in_l1 else profile.dram_channels
