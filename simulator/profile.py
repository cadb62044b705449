"""The cost of a run: cycles per operation and peaks of memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpCost:
    """Cycles of one operation. The parts overlap or add up (see `timing.py`); `cycles` is the total."""

    kernel: str
    location: str
    cycles: int
    compute_cycles: int
    transfer_cycles: int
    """DRAM and NoC."""
    launch_cycles: int
    dram_bytes: int
    noc_bytes: int
    """Bytes that the busiest core receives."""
    cores: int


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

    @property
    def total_cycles(self) -> int:
        """Cycles of all operations, one after another."""
        return sum(op.cycles for op in self.ops)

    @property
    def device_ns(self) -> float:
        """Time on the device in nanoseconds."""
        return self.total_cycles / self.clock_ghz
