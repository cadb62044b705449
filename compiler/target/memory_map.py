"""What lies where in a device's memory when a buffer does not fit: as data, as text and as a drawing (SVG)."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class LiveBuffer:
    """One buffer in memory. Addresses and bytes are those of the fullest bank that holds a part of it."""

    what: str
    since: str
    """The operation that made it."""
    address: int
    size: int
    banks: int
    """Number of banks (cores or DRAM channels) that hold a part of it."""


@dataclass(frozen=True)
class MemoryMap:
    """One kind of memory at one moment. Sizes in bytes per bank; addresses count the reserved regions."""

    buffer_type: str
    banks: int
    """Cores, or DRAM channels."""
    capacity: int
    reserved: tuple[tuple[str, int], ...]
    """Regions at the lowest addresses that no tensor may use."""
    buffers: tuple[LiveBuffer, ...]
    wanted: LiveBuffer
    """What does not fit; its address is 0."""
    free: int
    """Free bytes of the fullest bank that the wanted buffer needs."""
    largest_gap: int
    """Largest buffer that fits at one address into all banks that the wanted buffer needs."""

    @property
    def fragmentation(self) -> float:
        """Share of the free bytes that lies outside the largest gap: 0 is one gap, 1 none that can be used."""
        return 1 - self.largest_gap / self.free if self.free else 0.0

    def text(self) -> str:
        """A table by address, and what was wanted."""
        where = "core" if self.buffer_type == "l1" else "channel"
        reserved = sum(size for _, size in self.reserved)
        lines = [
            f"{self.buffer_type}: {self.capacity:,} bytes per {where}, {reserved:,} reserved, {self.banks} {where}s",
            f"wanted {self.wanted.size:,} bytes for {self.wanted.what} ({self.wanted.since}); free {self.free:,}, "
            f"largest gap {self.largest_gap:,}, fragmentation {self.fragmentation:.0%}",
            "",
            f"{'address':>13} {'bytes':>13} {where + 's':>9}  what",
        ]
        address = 0
        for name, size in self.reserved:
            lines.append(f"{address:>13,} {size:>13,} {self.banks:>9}  reserved: {name}")
            address += size
        for buffer in sorted(self.buffers, key=lambda b: (b.address, b.what)):
            place = f"{buffer.address:>13,} {buffer.size:>13,} {buffer.banks:>9}"
            lines.append(f"{place}  {buffer.what}, since {buffer.since}")
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """A bar from address 0 to the end with every region, and below it what was wanted, to the same scale."""
        width, scale = 1000, 1000 / max(self.capacity, self.wanted.size, 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 150" '
            'font-family="sans-serif" font-size="12">',
            f'<text x="0" y="14">{escape(self.text().splitlines()[0])}</text>',
            f'<rect x="0" y="24" width="{self.capacity * scale:.2f}" height="40" fill="#eee" stroke="#888"/>',
        ]
        address = 0
        for name, size in self.reserved:
            parts.append(_box(address, size, scale, 24, "#999", f"reserved: {name}, {size:,} bytes"))
            address += size
        for number, buffer in enumerate(sorted(self.buffers, key=lambda b: b.address)):
            place = f"{buffer.size:,} bytes from {buffer.address:,} in {buffer.banks} banks"
            note = f"{buffer.what}, {place}, since {buffer.since}"
            parts.append(_box(buffer.address, buffer.size, scale, 24, ("#4c78a8", "#72b7b2")[number % 2], note))
        parts.append(_box(0, self.wanted.size, scale, 90, "#e45756", f"wanted: {self.wanted.what}"))
        parts.append(f'<text x="0" y="84">{escape(self.text().splitlines()[1])}</text>')
        return "\n".join([*parts, "</svg>"]) + "\n"


def _box(address: int, size: int, scale: float, top: int, colour: str, note: str) -> str:
    """A rectangle with a tooltip."""
    return (
        f'<rect x="{address * scale:.2f}" y="{top}" width="{max(size * scale, 0.5):.2f}" height="40" fill="{colour}" '
        f'stroke="#fff" stroke-width="0.5"><title>{escape(note)}</title></rect>'
    )
