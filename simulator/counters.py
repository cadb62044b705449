"""What a run's cost says of the device: which unit limits it, how much of the grid computes, bytes moved.

The closed form (`timing/closed_form.py`) has one figure for computing, one for moving data and one for launching an
operation; of the second, DRAM takes what its bytes need at the board's measured bandwidth, and the NoC the rest. Which
thread of a core takes the first is known of products and of ops whose path of data was measured, whose unpacking and
packing are equal: it is called unpack there. It prices no Ethernet, which is never named as a limit of an unplanned op.

Of a planned program the epochs count: each has a slowest op, of which the model of time says which thread the others
wait for or whether operands come too slowly (`timing/thread_cycles.py`), its waits, and DRAM. A wait is the NoC's in
the closed form; events (`--timed`) tell the NoC, DRAM and Ethernet apart. No launch is priced there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.compiler.target.program import AttentionParams, Conv2dParams, Conv3dParams, MatmulParams
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.kernels.registry import KERNELS
from opscope.simulator.modelled import record_error
from opscope.simulator.profile import OpCost, Profile
from opscope.simulator.timing.card_rates import dram_cycles

PRODUCTS = (MatmulParams, Conv2dParams, Conv3dParams, AttentionParams)


@dataclass(frozen=True)
class Counters:
    """The counters of a run."""

    limiter: str | None
    """The unit with the most cycles in the operations that it limits: `math`, `unpack`, `pack`, `noc`, `dram`, `launch`
    (a host's wait for a predicate too) or `ethernet`. None if no operation takes any."""
    cycles_error: float | None
    """How far its cycles may be from a card's, in percent: of the kinds of its kernels, weighted by their cycles."""
    utilisation: float | None
    """Share of the cycles of all cores of the grid in which a core computes, 0 to 1; None if there are none. What a
    placed op's slowest thread takes counts as computing, moving tiles in and out of the core included."""
    dram_bytes: int
    """Bytes that the operations read from and write to DRAM, padding included; of a plan those of its queues, with what
    a prologue reads into L1. These and those below are the sums of the operations' own figures."""
    noc_bytes: int
    """Bytes that the busiest core of each operation receives, summed."""
    dram_read_bytes: int
    dram_written_bytes: int


def limiter(cost: OpCost, system: SystemDesc) -> str:
    """The unit that takes most of an operation's cycles."""
    transfer = cost.transfer_cycles
    dram = min(dram_cycles(system, cost.dram_read_bytes, cost.dram_written_bytes), transfer)
    if issubclass(KERNELS[cost.kernel].params, PRODUCTS):
        noc = transfer - dram  # a product reads from DRAM and multicasts one after another
    else:
        noc = transfer if dram < transfer - 1 else 0.0  # elsewhere both overlap, and the slower one is the transfer
    cycles = {cost.compute_unit: cost.compute_cycles, "noc": noc, "dram": dram, "launch": cost.launch_cycles}
    return max(cycles, key=lambda name: cycles[name])


def counters(profile: Profile, system: SystemDesc, cores: int) -> Counters:
    """The counters of a run on a grid of `cores` cores. A run that was cut short has no limiter and no utilisation."""
    of_limiter: Counter[str] = Counter()
    if profile.epochs:
        for epoch in profile.deciding_epochs:
            of_limiter[epoch.limiter] += epoch.cycles
        busy = sum(epoch.inputs * epoch.busy_core_cycles for epoch in profile.epochs)
        cores *= len({epoch.chip for epoch in profile.epochs})
    else:
        for cost in profile.ops:
            if cost.cycles:
                of_limiter[limiter(cost, system)] += cost.cycles
        busy = sum(cost.compute_cycles * cost.cores for cost in profile.ops)
    total = 0 if profile.partial else profile.total_cycles
    return Counters(
        max(of_limiter, key=lambda name: of_limiter[name]) if total else None,
        _cycles_error(profile, system.arch) if total else None,
        busy / (total * cores) if total else None,
        sum(cost.dram_bytes for cost in profile.ops),
        sum(cost.noc_bytes for cost in profile.ops),
        sum(cost.dram_read_bytes for cost in profile.ops),
        sum(cost.dram_written_bytes for cost in profile.ops),
    )


def _cycles_error(profile: Profile, arch: str) -> float | None:
    """The uncertainty of an unplanned program's cycles in percent; of a plan's nobody has measured it by kind."""
    errors = [(cost.cycles, record_error(cost.kernel, arch)) for cost in profile.ops if cost.cycles]
    if profile.epochs or not errors:
        return None
    return round(sum(cycles * error for cycles, error in errors) / sum(cycles for cycles, _ in errors), 1)


def moved_line(figures: Mapping[str, Any]) -> str:
    """Returns the line of a run's bytes, from its counters as JSON."""
    return (
        f"moved: {figures['dram_read_bytes']:,} bytes read from DRAM, {figures['dram_written_bytes']:,} bytes written "
        f"to it; {figures['noc_bytes']:,} bytes over the NoC to the busiest core of each operation"
    )
