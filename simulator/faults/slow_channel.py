"""A DRAM channel that is slower than the others, as a decorator of timing.

Pages are dealt to the channels in turn, so an operation waits for the slowest: its DRAM time is the larger of what all
channels take together and what the slow one takes for its own pages. The cost is computed as always, on a system
description whose DRAM is as fast as that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from opscope.compiler.target.allocation import pages_of
from opscope.compiler.target.program import Operation, Program
from opscope.compiler.target.system_desc import Profile, SystemDesc


def slowed(
    system: SystemDesc, profile: Profile, factor_of: Mapping[int, float]
) -> Callable[[Operation, Program], SystemDesc]:
    """Returns the system description by which an operation is timed; `factor_of` has the slow channels."""

    def of(op: Operation, program: Program) -> SystemDesc:
        held = [program.tensors[t] for t in {*op.inputs, *op.outputs} if program.tensors[t].buffer_type == "dram"]
        sizes = [pages_of(desc, profile) for desc in held]
        every = sum(pages * size for pages, size in sizes)
        worst = 1.0
        for channel, factor in factor_of.items() if every else ():
            own = sum(-(-max(pages - channel, 0) // profile.dram_channels) * size for pages, size in sizes)
            # Time over that of an even deal: own bytes * factor on one channel's share of the bandwidth.
            worst = max(worst, own * profile.dram_channels * factor / every)
        return replace(system, dram_gb_per_s=system.dram_gb_per_s / worst)

    return of
