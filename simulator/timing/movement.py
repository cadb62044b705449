"""How long a core's transfers take: reads, writes and multicasts over the NoC, to other cores and to one bank of DRAM.

Constants are fitted to one of each two neighbouring rows of tt-metal's measurements (tests/tt_metal/tt_metal/
data_movement/documentation/perf_plots) by `python -m ci.calibration.fit_movement`, which reports the other rows. Nobody
published Grayskull's, whose NoC is as wide as Wormhole's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Transfers(Protocol):
    """Transactions of one core that follow each other without waiting for answers."""

    @property
    def latency(self) -> float:
        """Cycles of the smallest transaction."""
        ...

    @property
    def issue(self) -> float:
        """The least cycles between two transactions."""
        ...

    @property
    def stream(self) -> float:
        """Bytes per cycle of a long transfer."""
        ...

    def cycles(self, count: int, size: float) -> float:
        """Returns the cycles of `count` transactions of `size` bytes, until the last one is done."""
        ...


@dataclass(frozen=True)
class Packets:
    """Transactions of which each is cut into packets that take the way one after another."""

    latency: float
    issue: float
    packet: int
    """Most bytes of a packet: 256 flits (tt-isa-documentation, NoC/README.md)."""
    header: float
    """Cycles of a packet beside its data."""
    stream: float
    reserve: float = 0.0
    """Cycles in which a multicast reserves its way to all receivers, per packet."""
    partial: float = 0.0
    """Cycles of a write to DRAM that is shorter than `LINE`, which the controller merges with what is there."""

    def cycles(self, count: int, size: float) -> float:
        """Returns the cycles of `count` transactions of `size` bytes, until the last one is done."""
        if self.partial and size < LINE:
            return self.latency + self.partial * (count - 1)
        whole, rest = divmod(size, self.packet)
        busy = whole * self._way(self.packet) + (self._way(rest) if rest else 0.0)
        first = min(size, self.packet)
        return self.latency + count * busy - self._way(first) + first / self.stream

    def _way(self, size: float) -> float:
        return max(self.issue, self.header + size / self.stream + self.reserve)


@dataclass(frozen=True)
class Growth:
    """A figure that grows with the cores that a multicast reaches, by a power of their number."""

    one: float
    power: float

    def of(self, cores: float) -> float:
        """Returns the figure of so many cores."""
        return self.one * cores**self.power


@dataclass(frozen=True)
class Multicasts:
    """A core's writes to all cores of a rectangle at once."""

    latency: float
    """Cycles of the smallest one, beside those of its receivers."""
    spread: Growth
    """Cycles until all receivers have the smallest one."""
    issue: float
    packet: int
    stream: float
    """As of `Packets`."""
    reserved: Growth
    kept: Growth
    """Cycles of a packet beside its data: where it reserves its way anew, and where it is linked to the one before, as
    a matrix product's, and so keeps that one's."""

    def to(self, cores: float, *, linked: bool = False) -> Packets:
        """Returns the transactions that so many cores receive, the sender not counted."""
        latency, reserve = self.latency + self.spread.of(cores), (self.kept if linked else self.reserved).of(cores)
        return Packets(latency, self.issue, self.packet, 0.0, self.stream, reserve)


@dataclass(frozen=True)
class LongReads:
    """Blackhole's reads of DRAM: those of more than one packet run at a higher rate. Why is not published."""

    short: Packets
    stream: float
    turn: float
    """Cycles more until a long read runs."""

    @property
    def latency(self) -> float:
        """Cycles of the smallest read."""
        return self.short.latency

    @property
    def issue(self) -> float:
        """The least cycles between two reads."""
        return self.short.issue

    def cycles(self, count: int, size: float) -> float:
        """Returns the cycles of `count` reads of `size` bytes, until the last one is done."""
        if size <= self.short.packet:
            return self.short.cycles(count, size)
        return self.latency + self.turn + count * size / self.stream


@dataclass(frozen=True)
class QueuedWrites:
    """Blackhole's writes to DRAM: they fill the controller's queue as fast as the NoC goes, which the bank empties, in
    whole packets faster than in parts of them.
    """

    latency: float
    issue: float
    packet: int
    noc: float
    """Bytes per cycle into the queue."""
    short: float
    stream: float
    """Bytes per cycle out of it, of parts of packets and of whole ones."""
    queue: float
    """Bytes."""

    def cycles(self, count: int, size: float) -> float:
        """Returns the cycles of `count` writes of `size` bytes, until the last one is done."""
        whole = count * size
        out = self.stream if size >= self.packet else self.short
        return self.latency + max(self.issue * (count - 1), whole / self.noc, (whole - self.queue) / out)


LINE = 128
"""Bytes; writes of 32 and 64 take three times as long as those of 128 (measured on Wormhole)."""


@dataclass(frozen=True)
class Movement:
    """The transfers of one arch."""

    l1_read: Transfers
    l1_write: Transfers
    dram_read: Transfers
    dram_write: Transfers
    multicast: Multicasts
    scattered: float
    """Bytes per clock of a core that reads tiles from all banks of DRAM in turn: what its interface takes on Wormhole,
    the rate of long reads on Blackhole."""


LINKED = Growth(0.354, 1.2)
"""Of Blackhole's tables. It meets Wormhole's of 5x5, whose one of a whole chip does not say how many cores that has."""
WORMHOLE_B0 = Movement(
    Packets(291.1, 19.1, 8192, 1.8, 28.9),
    Packets(294.5, 22.6, 8192, 0.7, 31.2),
    Packets(380.9, 22.0, 8192, 0.0, 22.3),
    Packets(402.4, 22.3, 8192, 0.0, 21.9, partial=65.8),
    Multicasts(316.5, Growth(9.66, 0.867), 22.6, 8192, 30.7, Growth(26.8, 0.6), LINKED),
    28.9,
)
MOVEMENT: Mapping[str, Movement] = {
    "wormhole_b0": WORMHOLE_B0,
    "blackhole": Movement(
        Packets(361.9, 34.8, 16384, 0.4, 61.8),
        Packets(366.6, 22.9, 16384, 1.0, 62.0),
        LongReads(Packets(498.2, 34.8, 16384, 3.7, 23.6), 35.1, 324.0),
        QueuedWrites(395.6, 24.1, 16384, 63.4, 23.7, 37.4, 7315.0),
        Multicasts(382.1, Growth(7.85, 0.838), 24.0, 16384, 61.7, Growth(18.35, 0.642), LINKED),
        35.1,
    ),
    "grayskull": WORMHOLE_B0,
}
