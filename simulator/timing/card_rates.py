"""What kernels of tt-metal take on a card beside the transfers of one core: rates of all cores, starting, loops.

A core's own transfers are `movement.py`'s, which tt-metal measured; here is what many cores do at the same time, which
only profiles of whole models show. `python -m ci.calibration.fit_profiles` fitted the figures but `page` to 83 rows of
four runs that tt-perf-report publishes; each says which kinds of row decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.system_desc import SystemDesc


@dataclass(frozen=True)
class CardRates:
    """The figures of one arch."""

    start: float
    """Cycles from the start of a program's kernels to the first transfer, and from the last one to its end (all rows;
    most in those of a few microseconds)."""
    page: float
    """Cycles of a page in a data movement kernel beside its transfer: its place in the buffer and its address (chosen
    by hand: untilize to L1, whose writer makes 320 of them)."""
    read: float
    written: float
    """Bytes per clock of all cores from and to interleaved DRAM (relu, typecast, slice, concat, resharding, norms).
    tt-metal's report on saturating DRAM has two thirds of the specification for readers that are not beside their
    banks."""
    unpacked: float = 0.0
    """Bytes per cycle of two operands in L1 that the matrix unit adds, tile by tile (two rows of a p100); 0 where the
    measured cycles of a core say it."""
    word: float = 3.8
    """Cycles of a word that a data movement kernel stores in L1, to fill up a tile (tilize with padding, a binary op
    with a scalar)."""
    segment: float = 357.0
    """Cycles in which a row of up to 32 elements is copied from one tile to another (reshape, two rows)."""
    line: float = 74.0
    """Cycles of a write of half a row of a tile, 32 bytes (transpose of rows, two rows)."""
    window: float = 10.3
    """Cycles of a read of a run of pixels of a convolution's image beside its bytes (ten rows)."""
    row_ns: float = 38.0
    """Time in which a bank of DRAM opens a row for a request, where all cores read parts of a product of their own
    (products along columns: five rows of a p100, one of a p150). A row cycle of GDDR6 is of that size."""
    first_tile: float = 450.0
    """Cycles of a tile through unpack, math and pack, where nothing hides them (small and batched ops)."""
    softmax_row: float = 15_300.0
    """Cycles of a row of tiles of a softmax beside its tiles': starting its passes in float32."""


WORMHOLE_B0 = CardRates(580.0, 60.0, 236.0, 183.0)
CARD_RATES: Mapping[str, CardRates] = {
    "wormhole_b0": WORMHOLE_B0,
    "blackhole": CardRates(405.0, 60.0, 265.0, 215.0, 51.0),
    "grayskull": WORMHOLE_B0,
}


@dataclass(frozen=True)
class ProductConstants:
    """What products of a chip take beside transfers."""

    overhead: float
    """Cycles of a 32x32x32 product beside those of the matrix unit."""
    unpacked: float
    """Bytes of the right operand that a core unpacks per cycle: a tile for each product."""
    subblock: float
    """Cycles of a subblock per step: waiting for it, packing it and adding it up in L1."""
    written: float
    """Share of DRAM's rate at which all cores write, block by block on the network that brings the operands."""
    awaited: float
    """Share of a multicast's latency, which is that of its answers, after which the cores that receive it go on."""


N150 = ProductConstants(3.2, 42.6, 125.0, 0.35, 1.0)
PRODUCTS: Mapping[str, ProductConstants] = {
    "wormhole_b0": N150,
    # Unpacks twice the bytes per cycle, as its NoC brings: tt-isa-documentation (BlackholeA0/TensixTile) says that L1
    # has more bandwidth than Wormhole's, not how much. No overhead; the other three by half of p150's rows.
    "blackhole": ProductConstants(0.0, 2 * N150.unpacked, 60.6, 0.543, 0.746),
    "grayskull": N150,  # nobody published its products
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
