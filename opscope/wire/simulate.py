"""`opscope simulate --json`."""

from __future__ import annotations

from pydantic import MISSING

from opscope.wire.answer import Answer


class Result(Answer):
    """A result of the program."""

    shape: tuple[int, ...]
    element_type: str
    """NumPy's name."""


class Operation(Answer):
    """What one operation cost, in order."""

    kernel: str
    location: str
    cycles: int
    compute_cycles: float
    transfer_cycles: float
    launch_cycles: float
    dram_bytes: int
    dram_read_bytes: int
    dram_written_bytes: int
    noc_bytes: int
    """What the busiest core receives."""
    cores: int


class _Run(Answer):
    card_type: str
    non_finite: tuple[str, ...]
    """Where the first NaN and the first infinity arise."""
    dump: str | MISSING = MISSING
    """With --dump: the folder."""
    faults: tuple[str, ...] | MISSING = MISSING
    """With --fault: what each of them did."""
    partial: bool | MISSING = MISSING
    """With --timed, as the next three: whether it stopped at --max-events."""
    events: int | MISSING = MISSING
    event_seconds: float | MISSING = MISSING
    """Of processor time."""
    notes: tuple[str, ...] | MISSING = MISSING


class Hung(_Run):
    """A run in which the device hangs."""

    hang: str


class Simulated(_Run):
    """A run."""

    cycles: int
    device_ns: float
    l1_peak_bytes: int
    """Of the fullest core."""
    dram_peak_bytes: int
    results: tuple[Result, ...]
    ops: tuple[Operation, ...]
    changed: tuple[int, ...] | MISSING = MISSING
    """With --fault: elements of each result that the faults changed."""
    limiter: str | None
    """`math`, `unpack`, `pack`, `noc`, `dram`, `launch` or `ethernet`; null if no operation takes any cycles."""
    cycles_error: float | None
    """How far the cycles may be from a card's, in percent."""
    utilisation: float | None
    """Share of the cycles of all cores in which a core computes, 0 to 1."""
    dram_bytes: int
    noc_bytes: int
    """What the busiest core of each operation receives, summed."""
    dram_read_bytes: int
    dram_written_bytes: int


PRINTS = Simulated | Hung
