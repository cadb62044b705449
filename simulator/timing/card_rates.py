"""What kernels of tt-metal take on a card beside the transfers of one core: rates of all cores, starting, loops.

A core's own transfers are `movement.py`'s, which tt-metal measured; here is what many cores do at the same time, which
only profiles of whole models show. Each figure says what it was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.system_desc import SystemDesc


@dataclass(frozen=True)
class CardRates:
    """The figures of one arch."""

    start: float
    """Cycles from the start of a program's kernels to the first transfer, and from the last one to its end."""
    page: float
    """Cycles of a page in a data movement kernel beside its transfer: its place in the buffer and its address."""
    read: float
    written: float
    """Bytes per clock of all cores from and to interleaved DRAM."""
    unpacked: float = 0.0
    """Bytes per cycle of two operands in L1 that the matrix unit adds, tile by tile (two rows of a p100); 0 where the
    measured cycles of a core say it."""
    word: float = 3.8
    """Cycles of a word that a data movement kernel stores in L1, to fill up a tile."""
    segment: float = 357.0
    """Cycles in which a row of up to 32 elements is copied from one tile to another."""
    line: float = 74.0
    """Cycles of a write of half a row of a tile, 32 bytes."""
    window: float = 10.3
    """Cycles of a read of a run of pixels of a convolution's image beside its bytes."""
    row_ns: float = 38.0
    """Time in which a bank of DRAM opens a row for a request, where all cores read parts of a product of their own."""
    first_tile: float = 450.0
    """Cycles of a tile through unpack, math and pack, where nothing hides them."""
    softmax_row: float = 15_300.0
    """Cycles of a row of tiles of a softmax beside its tiles': starting its passes in float32."""


WORMHOLE_B0 = CardRates(580.0, 60.0, 236.0, 183.0)
CARD_RATES: Mapping[str, CardRates] = {
    "wormhole_b0": WORMHOLE_B0,
    "blackhole": CardRates(405.0, 60.0, 265.0, 215.0, 51.0),
    "grayskull": WORMHOLE_B0,
}


def dram_rates(system: SystemDesc) -> tuple[float, float]:
    """Returns bytes per clock of all cores that read interleaved DRAM, and of those that write it: what the NoC brings,
    or what the banks do where that is less.
    """
    banks = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz
    rates = CARD_RATES[system.arch]
    return min(rates.read, banks), min(rates.written, banks)


def dram_cycles(system: SystemDesc, read: float, written: float) -> float:
    """Returns the cycles in which all cores read and write so many bytes."""
    reads, writes = dram_rates(system)
    return read / reads + written / writes
