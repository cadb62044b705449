"""A DRAM channel that is slower than the others, as a decorator of timing.

Pages are dealt to the channels in turn, so an operation waits for the slowest: its DRAM time is the larger of what all
channels take together and what the slow one takes for its own pages. A plan says which queue lies in which channel; its
epochs wait for the busiest, so a slow one counts by how long its queues take over the busiest one's, all queues of the
plan together. The cost is computed as always, on a system description whose DRAM is as fast as that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from opscope.compiler.target.allocation import pages_of
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.program import Operation, Program
from opscope.compiler.target.system_desc import Profile, SystemDesc


def slowed(
    system: SystemDesc, profile: Profile, factor_of: Mapping[int, float]
) -> Callable[[Operation, Program], SystemDesc]:
    """Returns the system description by which an operation is timed; `factor_of` has the slow channels."""

    def of(op: Operation, program: Program) -> SystemDesc:
        in_dram = [program.tensors[t] for t in {*op.inputs, *op.outputs} if program.tensors[t].buffer_type == "dram"]
        sizes = [pages_of(desc, profile) for desc in in_dram]
        every = sum(pages * size for pages, size in sizes)
        worst = 1.0
        for channel, factor in factor_of.items() if every else ():
            own = sum(-(-max(pages - channel, 0) // profile.dram_channels) * size for pages, size in sizes)
            # Time over that of an even deal: own bytes * factor on one channel's share of the bandwidth.
            worst = max(worst, own * profile.dram_channels * factor / every)
        return replace(system, dram_gb_per_s=system.dram_gb_per_s / worst)

    return of


def slowed_plan(
    system: SystemDesc, plan: Plan, chip: int, factor_of: Mapping[int, float]
) -> Callable[[Operation, Program], SystemDesc]:
    """The same for a plan, of which one chip has the slow channels."""
    busy: Counter[int] = Counter()
    for queue in plan.queues:
        if queue.location == "dram" and queue.chip == chip:
            for place in queue.allocations:
                busy[place.channel] += queue.entry_bytes
    most = max(busy.values(), default=0)
    worst = max([1.0, *(busy[channel] * factor / most for channel, factor in factor_of.items() if most)])
    slower = replace(system, dram_gb_per_s=system.dram_gb_per_s / worst)
    numbers = {number for op in plan.ops if op.chip == chip for number in (*op.steps, op.operation)}

    def of(op: Operation, program: Program) -> SystemDesc:
        return slower if any(program.operations[number] is op for number in numbers) else system

    return of
