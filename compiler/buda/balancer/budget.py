"""The resources of a chip for one op: cores, L1, Dst, DRAM channels and bandwidths (the board's `buda` profile)."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.target.formats import number_format
from opscope.compiler.target.system_desc import SystemDesc

DRAM_BYTES_PER_CLOCK = {"grayskull": 10.5 * 1.073741824, "wormhole_b0": 20.4, "blackhole": 20.4}
"""Read bandwidth of one DRAM block that the balancer assumes: measured GiB/s at 1 GHz (tt-buda's descriptors)."""
DRAM_SUBCHANNELS = {"grayskull": 1, "wormhole_b0": 3, "blackhole": 3}
PLACEHOLDERS = frozenset({"blackhole"})
"""Architectures for which TT-Buda has another chip's figures as placeholders."""


@dataclass(frozen=True)
class Budget:
    """The limits of one chip."""

    arch: str
    grid: Grid
    l1_usable: int
    dram_channels: int
    dram_channel_bytes: int
    noc_bytes_per_clock: int
    placeholder: bool

    @classmethod
    def of(cls, board: SystemDesc) -> Budget:
        """Returns the budget of a board."""
        profile = board.buda
        return cls(
            board.arch,
            Grid(*profile.grid),
            profile.l1_usable,
            profile.dram_channels,
            profile.dram_channel_bytes,
            board.noc_bytes_per_clock,
            board.arch in PLACEHOLDERS,
        )


def dst_tiles(acc_format: str) -> int:
    """Returns the tiles that half of Dst's 32 KiB holds while the other half is packed: 8 of 16 bits, 4 of 32."""
    return 4 if number_format(acc_format).bits == 32 else 8
