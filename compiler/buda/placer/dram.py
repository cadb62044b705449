"""Places queues in DRAM: chooses a channel and an address for each core's part of a queue.

Queues that stay (inputs, parameters, outputs) are placed first, the largest first. A queue between epochs lives from
the epoch that writes it to the last one that reads it; its space is then reused. Within a channel it is a best fit.
A Wormhole channel counts as two of half the size, with their own bandwidth (tt-buda: csrc/placer/dram_allocator.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.plan import Allocation

ALIGNMENT = 32
HALVES = {"wormhole_b0": 2}
"""Parts into which the allocator divides each channel."""
FIRST = {"grayskull": 0x100, "wormhole_b0": 0x20, "blackhole": 0x20}
"""First address that a queue may have; the bytes before it hold the host's barrier."""
WORKERS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "grayskull": (tuple(range(1, 13)), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    "wormhole_b0": ((1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    "blackhole": ((*range(1, 8), *range(10, 17)), tuple(range(2, 12))),
}
"""NoC columns and rows of the cores (from tt-umd's descriptors, like the next two)."""
DRAM_TILES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "grayskull": ((1, 0), (1, 6), (4, 0), (4, 6), (7, 0), (7, 6), (10, 0), (10, 6)),
    "wormhole_b0": ((0, 0), (0, 5), (5, 0), (5, 2), (5, 3), (5, 5)),
    "blackhole": ((0, 0), (0, 2), (0, 9), (0, 5), (9, 0), (9, 2), (9, 9), (9, 5)),
}
"""NoC column and row of each channel's first port."""
SIZE: Mapping[str, tuple[int, int]] = {"grayskull": (13, 12), "wormhole_b0": (10, 12), "blackhole": (17, 12)}
"""Columns and rows of the NoC, whose links wrap around."""


@dataclass(frozen=True)
class Request:
    """A queue that needs space: one part for each of `cores`, the cores that write or read it."""

    name: str
    part_bytes: int
    cores: tuple[tuple[int, int], ...]
    """Logical (row, column) of the core of each part."""
    stays: bool
    """Whether the queue exists in every epoch."""
    first_epoch: int = 0
    last_epoch: int = 0


@dataclass
class Channel:
    """One channel, with a best fit among its free ranges."""

    start: int
    size: int
    free: dict[int, int] = field(default_factory=dict)
    """Address -> bytes."""

    def __post_init__(self) -> None:
        self.free = {self.start: self.size}

    @property
    def free_bytes(self) -> int:
        """Free bytes."""
        return sum(self.free.values())

    def take(self, size: int) -> int | None:
        """Returns the address of `size` bytes in the smallest free range that holds them; None if none does."""
        fits = [(have, address) for address, have in self.free.items() if have >= size]
        if not fits:
            return None
        have, address = min(fits)
        del self.free[address]
        if have > size:
            self.free[address + size] = have - size
        return address

    def release(self, address: int, size: int) -> None:
        """Frees a range and joins it with free neighbours."""
        merged: dict[int, int] = {}
        last = None
        for start, length in sorted([*self.free.items(), (address, size)]):
            if last is not None and last + merged[last] == start:
                merged[last] += length
            else:
                last = start
                merged[start] = length
        self.free = merged


Picker = Callable[[Request, int, Sequence[Channel]], int]
"""(queue, part, channels) -> channel."""


def _round_robin(arch: str) -> Picker:
    turn = [0]

    def pick(request: Request, part: int, channels: Sequence[Channel]) -> int:
        turn[0] += 1
        return (turn[0] - 1) % len(channels)

    return pick


def _flip_flop(arch: str) -> Picker:
    turns = [0, 0, 0]

    def pick(request: Request, part: int, channels: Sequence[Channel]) -> int:
        group = 2 if request.stays else request.first_epoch % 2
        middle = len(channels) // 2
        low, high = ((0, middle), (middle, len(channels)), (0, len(channels)))[group]
        turns[group] += 1
        return low + (turns[group] - 1) % max(1, high - low)

    return pick


def _greatest_capacity(arch: str) -> Picker:
    return lambda request, part, channels: max(range(len(channels)), key=lambda i: (channels[i].free_bytes, -i))


def _closest(arch: str) -> Picker:
    columns, rows = WORKERS[arch]
    width, height = SIZE[arch]
    halves = HALVES.get(arch, 1)
    used: dict[int, set[int]] = {}

    def hops(core: tuple[int, int], channel: int) -> int:
        x, y = DRAM_TILES[arch][channel // halves]
        dx, dy = abs(columns[core[1]] - x), abs(rows[core[0]] - y)
        return min(dx, width - dx) + min(dy, height - dy)

    def pick(request: Request, part: int, channels: Sequence[Channel]) -> int:
        taken = used.setdefault(request.first_epoch, set())
        if len(taken) == len(channels):
            taken.clear()
        # An epoch's queues share a channel's bandwidth, so a channel that is already used comes last.
        channel = min(range(len(channels)), key=lambda i: (i in taken, hops(request.cores[part], i), i))
        taken.add(channel)
        return channel

    return pick


PICKERS: Mapping[str, Callable[[str], Picker]] = {
    "ROUND_ROBIN": _round_robin,
    "ROUND_ROBIN_FLIP_FLOP": _flip_flop,
    "GREATEST_CAPACITY": _greatest_capacity,
    "CLOSEST": _closest,
}
"""TT-Buda's DRAM placement algorithms. Flip-flop puts inputs on all channels, and epochs on either half in turn."""


def channels_of(budget: Budget) -> list[Channel]:
    """Returns a chip's channels, empty."""
    halves = HALVES.get(budget.arch, 1)
    size = budget.dram_channel_bytes // halves
    first = FIRST[budget.arch]
    channels = []
    for number in range(budget.dram_channels * halves):
        base = (number % halves) * size
        start = max(base, first)
        channels.append(Channel(start, base + size - start))
    return channels


def place_queues(
    requests: Iterable[Request], budget: Budget, algorithm: str = "ROUND_ROBIN"
) -> dict[str, tuple[Allocation, ...]]:
    """Returns channel and address of every part of every queue of one chip.

    Raises CompilerInputError for an unknown algorithm, or if no channel has space.
    """
    if algorithm not in PICKERS:
        raise CompilerInputError(f"dram placement: expected {', '.join(PICKERS)}, got {algorithm!r}")
    channels, halves = channels_of(budget), HALVES.get(budget.arch, 1)
    pick = PICKERS[algorithm](budget.arch)
    allocations: dict[str, tuple[Allocation, ...]] = {}
    taken: list[tuple[int, int, int, int]] = []
    """(last epoch, channel, address, bytes) of queues between epochs."""
    waiting = list(requests)
    lasting = sorted((r for r in waiting if r.stays), key=lambda r: -r.part_bytes * len(r.cores))
    passing = sorted((r for r in waiting if not r.stays), key=lambda r: (r.first_epoch, r.last_epoch))
    for request in (*lasting, *passing):
        if not request.stays:
            for gone in [h for h in taken if h[0] < request.first_epoch]:
                taken.remove(gone)
                channels[gone[1]].release(gone[2], gone[3])
        parts = []
        size = -(-request.part_bytes // ALIGNMENT) * ALIGNMENT
        for part in range(len(request.cores)):
            wanted = pick(request, part, channels)
            order = [wanted, *(i for i in range(len(channels)) if i != wanted)]
            for channel in order:
                address = channels[channel].take(size)
                if address is not None:
                    break
            else:
                raise CompilerInputError(
                    f"dram: expected room for {size} bytes of queue {request.name}, got at most "
                    f"{max(max(c.free.values(), default=0) for c in channels)} in one channel; try fewer entries"
                )
            parts.append(Allocation(channel // halves, address))
            if not request.stays:
                taken.append((request.last_epoch, channel, address, size))
        allocations[request.name] = tuple(parts)
    return allocations
