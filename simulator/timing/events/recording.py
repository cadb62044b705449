"""What a run by events leaves behind: who worked when, how often each waited for what, and how many events it took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

THREADS = ("unpack", "math", "pack")


@dataclass(frozen=True)
class Span:
    """One piece of work of a thread of a core."""

    section: int
    """Epoch, or 0 without a plan."""
    chip: int
    core: tuple[int, int]
    """Row and column."""
    thread: str
    name: str
    start: float
    cycles: float
    input: int = 0


@dataclass
class OpTimes:
    """Where the time of an op went, summed over its cores."""

    name: str
    kernel: str
    section: int
    chip: int
    cores: int
    busy: Counter[str] = field(default_factory=Counter)
    """Thread -> cycles in which it worked."""
    waited: Counter[str] = field(default_factory=Counter)
    """`noc`, `dram` or `ethernet` -> cycles in which the op waited for data by that way; `room`: for a reader."""
    end: float = 0.0
    limiter: str = ""
    flops: float = 0.0
    """Of all inputs that went through."""
    bytes: float = 0.0
    """Received by all of its cores."""


@dataclass(frozen=True)
class Roofs:
    """The most that a chip can do in a cycle."""

    flops: float
    """Of the matrix units of all cores, in one fidelity phase."""
    dram_bytes: float
    noc_bytes: float
    """That all cores receive."""


@dataclass
class Recording:
    """One run."""

    max_events: int
    clock_ghz: float = 1.0
    spans: list[Span] = field(default_factory=list)
    ops: list[OpTimes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    seconds: float = 0.0
    """Processor time of the simulation."""
    planned: bool = False
    """Whether sections are epochs of a plan, each with a time of its own."""
    partial: bool = False
    """Whether it stopped at `max_events`, so that cycles are those of a part of the work."""
    cut: bool = False
    """Whether there was more work than `spans` has."""
    dram_bytes: int = 0
    noc_bytes: int = 0
    ethernet_bytes: int = 0
    noc_waited: int = 0
    roofs: Roofs | None = None

    @property
    def left(self) -> int:
        """Events that may still happen."""
        return self.max_events - self.events

    def take(self, other: Recording) -> None:
        """Adds what another run left behind."""
        self.spans += other.spans
        self.ops += other.ops
        self.notes += other.notes
        self.events += other.events
        self.seconds += other.seconds
        self.partial |= other.partial
        self.dram_bytes += other.dram_bytes
        self.noc_bytes += other.noc_bytes
        self.ethernet_bytes += other.ethernet_bytes
        self.noc_waited += other.noc_waited
