"""What moves data: two NoC tori with their links, DRAM channels and Ethernet. Each serves one transfer at a time.

A transfer takes each link of its route for as long as its bytes take on one, after those that came before, and arrives
when the last link is through (wormhole routing over virtual channels). NoC 0 routes east, then south; NoC 1 north, then
west (tt-isa-documentation, NoC/README.md: a router takes 9 cycles, an interface 5). A multicast takes the links of all
of its routes once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.timing.events.geometry import Geometry, Router
from opscope.simulator.timing.movement import MOVEMENT

HOP, INTERFACE = 9, 5
Link = tuple[int, int, int, str]
"""NoC, column and row of the router that it leaves, and its axis."""


@lru_cache(maxsize=65536)
def route(noc: int, source: Router, target: Router, size: tuple[int, int]) -> tuple[Link, ...]:
    """Returns the links from one router to another."""
    (x, y), (end_x, end_y), step = source, target, 1 if noc == 0 else -1
    links: list[Link] = []

    def along_x() -> None:
        nonlocal x
        while x != end_x:
            links.append((noc, x, y, "x"))
            x = (x + step) % size[0]

    def along_y() -> None:
        nonlocal y
        while y != end_y:
            links.append((noc, x, y, "y"))
            y = (y + step) % size[1]

    for move in (along_x, along_y) if noc == 0 else (along_y, along_x):
        move()
    return tuple(links)


class Network:
    """The links, channels and chips' connections of one chip. Times are in cycles."""

    def __init__(self, system: SystemDesc, geometry: Geometry, channels: int, readers: int = 1) -> None:
        self.geometry, self.channels = geometry, channels
        self.movement = MOVEMENT[system.arch]
        self._per_link = system.noc_bytes_per_clock
        self._per_channel = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz / channels / readers
        self._link, self._clock = system.ethernet, system.clock_ghz
        self._free: dict[object, float] = {}
        self.busy: Counter[object] = Counter()
        """Link, `("dram", channel)` or `ethernet` -> cycles in which it moved data."""
        self.waited: Counter[str] = Counter()
        """`noc`, `dram` or `ethernet` -> cycles that transfers waited for others."""
        self.moved: Counter[str] = Counter()
        """The same -> bytes."""

    def send(self, now: float, source: Router, targets: Iterable[Router], size: float) -> float:
        """Sends bytes from one router to others; returns when the last of them has everything."""
        routes = []
        for target in targets:
            both = (route(0, source, target, self.geometry.size), route(1, source, target, self.geometry.size))
            routes.append(min(both, key=len))
        links = {link for each in routes for link in each}
        hops = max(map(len, routes), default=0)
        end = self._serve(now, "noc", links, size, size / self._per_link)
        return end + hops * HOP + 2 * INTERFACE

    def dram(self, now: float, channel: int, size: float) -> float:
        """Reads or writes bytes of a channel; returns when the channel has done so."""
        return (
            self._serve(now, "dram", {("dram", channel)}, size, size / self._per_channel)
            + self.movement.dram_read.latency
        )

    def ethernet(self, now: float, size: float) -> float:
        """Sends bytes to another chip; returns when they are there. Raises ValueError for a board without links."""
        if self._link is None:
            raise ValueError("expected a board whose chips have links, got one without; try n300")
        cycles = size * self._clock / self._link.gb_per_s
        return self._serve(now, "ethernet", {"ethernet"}, size, cycles) + self._link.hop_ns * self._clock

    def _serve(self, now: float, kind: str, servers: Iterable[object], size: float, cycles: float) -> float:
        # Packets of transfers take turns (virtual channels), so that one that waits for a link leaves its others free.
        last = now + cycles
        for server in servers:
            end = max(now, self._free.get(server, 0.0)) + cycles
            self._free[server] = end
            self.busy[server] += round(cycles)
            last = max(last, end)
        self.waited[kind] += round(last - now - cycles)
        self.moved[kind] += round(size)
        return last
