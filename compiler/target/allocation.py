"""How a device allocates: what a tensor costs every bank, and first fit in one of them.

A buffer is cut into pages (a tile, or a row of a row-major tensor). Interleaved buffers deal their pages to all banks
in turn (DRAM channels, or every core's L1), sharded ones to the cores of their grid. All banks allocate in step, at
one address, as tt-metal does: so a buffer costs every bank its fullest bank's share. The compiler asks the same rules
which tensors fit into L1 that the device then allocates by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from opscope.compiler.target.formats import FORMATS, TILE, padded_tiles
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


def bank_bytes(desc: TensorDesc, profile: Profile) -> int:
    """Bytes that the fullest bank gives to a tensor."""
    pages, size = pages_of(desc, profile)
    if desc.buffer_type == "dram":
        banks, align = profile.dram_channels, profile.dram_alignment
    else:
        banks, align = profile.cores, profile.l1_alignment
    aligned = -(-size // align) * align
    if desc.buffer_type == "l1" and desc.memory_layout != "interleaved" and desc.layout == "tile":
        rows, columns = tile_matrix(desc.shape)
        return -(-rows // max(desc.grid[0], 1)) * -(-columns // max(desc.grid[1], 1)) * aligned
    return -(-pages // banks) * aligned


@dataclass
class Bank:
    """First-fit allocator of one bank; all banks of a kind are alike."""

    buffer_type: str
    capacity: int
    used: dict[int, int] = field(default_factory=dict)
    """Address -> bytes."""
    peak: int = 0

    @property
    def in_use(self) -> int:
        """Bytes allocated now."""
        return sum(self.used.values())

    def largest_gap(self) -> int:
        """Bytes of the largest buffer that fits."""
        gaps = [0]
        address = 0
        for start in sorted(self.used):
            gaps.append(start - address)
            address = start + self.used[start]
        return max(*gaps, self.capacity - address)

    def fit(self, size: int) -> int | None:
        """Address of `size` new bytes; None if no gap holds them."""
        address = 0
        for start in sorted(self.used):
            if start - address >= size:
                break
            address = start + self.used[start]
        if address + size > self.capacity:
            return None
        if size:
            self.used[address] = size
        self.peak = max(self.peak, self.in_use)
        return address

    def free(self, address: int) -> None:
        """Gives the buffer at `address` back."""
        self.used.pop(address, None)
