"""What a run by events leaves behind: who worked when, how often each waited for what, and how many events it took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from opscope.simulator.profile import OpCost

THREADS = ("unpack", "math", "pack")


@dataclass(frozen=True)
class Span:
    """One piece of work of a thread of a core."""

    section: int
    """Epoch, or the operation's number without a plan."""
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
    inputs: int = 1
    """How many were sent through to find the time of one; cycles, waits and `flops` are those of all of them."""
    flops: float = 0.0
    received_bytes: float = 0.0
    """That all of its cores receive over the NoC, of all inputs."""
    dram_read_bytes: int = 0
    dram_written_bytes: int = 0
    noc_bytes: int = 0
    """These three as in `OpCost`, of one input."""
    loaded_bytes: int = 0

    def moves(self, *costs: OpCost) -> None:
        """Takes what its operations move."""
        self.dram_read_bytes = sum(cost.dram_read_bytes for cost in costs)
        self.dram_written_bytes = sum(cost.dram_written_bytes for cost in costs)
        self.noc_bytes = sum(cost.noc_bytes for cost in costs)
        self.loaded_bytes = sum(cost.loaded_bytes for cost in costs)


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
    ethernet_bytes: int = 0
    """That chips send each other for one input."""
    roofs: Roofs | None = None

    @property
    def left(self) -> int:
        """Events that may still happen."""
        return self.max_events - self.events

    @property
    def inputs(self) -> int:
        """The most inputs that went through an epoch."""
        return max((op.inputs for op in self.ops), default=1)

    def take(self, other: Recording) -> None:
        """Adds what another run left behind."""
        self.spans += other.spans
        self.ops += other.ops
        self.notes += other.notes
        self.events += other.events
        self.seconds += other.seconds
        self.partial |= other.partial
        self.ethernet_bytes += other.ethernet_bytes
