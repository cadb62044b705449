"""The cost of a run: cycles per operation and peaks of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class OpCost:
    """Cycles of one operation. The parts overlap or add up (see `timing/operation.py`); `cycles` is the total."""

    kernel: str
    location: str
    cycles: int = 0
    compute_cycles: int = 0
    transfer_cycles: int = 0
    """DRAM and NoC."""
    launch_cycles: int = 0
    dram_read_bytes: int = 0
    """Padding and headers of tiles included, as all bytes here."""
    dram_written_bytes: int = 0
    noc_bytes: int = 0
    """Bytes that the busiest core receives."""
    cores: int = 0
    compute_unit: str = "math"
    """The thread of a core that takes `compute_cycles`: `unpack`, `math` or `pack`."""
    write_cycles: int = 0
    """Of the transfer, those in which a matrix product's results are written and nothing else is done."""
    loaded_bytes: int = 0
    """Of what a placed op reads from DRAM, that which a prologue brings into L1 once, before the first input."""
    started_cores: int = 0
    """Cores that the kernels are started on, some of which may have no work."""

    @property
    def dram_bytes(self) -> int:
        """Bytes read from DRAM and written to it."""
        return self.dram_read_bytes + self.dram_written_bytes

    def of_later_input(self) -> OpCost:
        """Returns the cost for an input that is not the first one: what a prologue has loaded is there."""
        return replace(self, dram_read_bytes=self.dram_read_bytes - self.loaded_bytes, loaded_bytes=0)

    def figures(self) -> dict[str, Any]:
        """Returns what every list of operations says of one, under the same names."""
        return {
            "kernel": self.kernel,
            "location": self.location,
            "cycles": self.cycles,
            "compute_cycles": self.compute_cycles,
            "transfer_cycles": self.transfer_cycles,
            "launch_cycles": self.launch_cycles,
            "dram_bytes": self.dram_bytes,
            "dram_read_bytes": self.dram_read_bytes,
            "dram_written_bytes": self.dram_written_bytes,
            "noc_bytes": self.noc_bytes,
            "cores": self.cores,
        }


@dataclass(frozen=True)
class EpochCost:
    """Cycles of one epoch of a plan, those of an input: its ops work at the same time, each on another input."""

    number: int
    chip: int
    slowest: str
    """The op that the others wait for."""
    slowest_cycles: int
    stall_cycles: int
    """In which that op waits for others."""
    dram_cycles: int
    """Of the busiest channel of DRAM, at the same time."""
    switch_cycles: int
    """In which activations are written to DRAM for later epochs and those of earlier ones are read."""
    inputs: int = 1
    """How many inputs went through it."""
    slowest_unit: str = "math"
    """What that op's cycles are: those of `unpack`, `math` or `pack`, or of the `noc` that brings its operands."""
    stall_unit: str = "noc"
    """By which way it waits for others: `noc`, `dram` or `ethernet`."""
    busy_core_cycles: int = 0
    """Cycles in which cores compute for one input, summed over cores."""

    @property
    def cycles(self) -> int:
        """Cycles of all its inputs, and of as many switches."""
        return self.inputs * (max(self.slowest_cycles + self.stall_cycles, self.dram_cycles) + self.switch_cycles)

    @property
    def limiter(self) -> str:
        """The unit that most of its cycles are."""
        cycles = {"unpack": 0, "math": 0, "pack": 0, "noc": 0, "dram": self.switch_cycles, "ethernet": 0}
        if self.dram_cycles > self.slowest_cycles + self.stall_cycles:
            cycles["dram"] += self.dram_cycles
        else:
            cycles[self.slowest_unit] += self.slowest_cycles
            cycles[self.stall_unit] += self.stall_cycles
        return max(cycles, key=lambda unit: cycles[unit])


@dataclass(frozen=True)
class Profile:
    """A whole program's cost on the device."""

    ops: tuple[OpCost, ...]
    clock_ghz: float
    l1_peak_bytes: int
    """Per core."""
    dram_peak_bytes: int
    predicates: int = 0
    """Predicates and branch numbers that the host read back."""
    once: tuple[OpCost, ...] = ()
    """Operations of programs whose results are kept for runs with the same parameters; not among `ops`."""
    epochs: tuple[EpochCost, ...] = ()
    """Of a planned program. Its placed ops overlap, so that their cycles do not add up."""
    partial: bool = False
    """Whether events stopped at their limit, so that cycles are those of a part of the program."""

    @property
    def total_cycles(self) -> int:
        """Cycles of all operations, one after another; of a planned program, of its epochs, one after another. Chips
        that work on the same epoch do so at the same time.
        """
        if self.epochs:
            return sum(epoch.cycles for epoch in self.deciding_epochs)
        return sum(op.cycles for op in self.ops)

    @property
    def deciding_epochs(self) -> tuple[EpochCost, ...]:
        """Of each epoch, the chip that takes longest."""
        slowest: dict[int, EpochCost] = {}
        for epoch in self.epochs:
            if epoch.number not in slowest or epoch.cycles > slowest[epoch.number].cycles:
                slowest[epoch.number] = epoch
        return tuple(slowest.values())

    @property
    def device_ns(self) -> float:
        """Time on the device in nanoseconds."""
        return self.total_cycles / self.clock_ghz
