"""The bottleneck of an op in a pipeline: its kernel, or the bandwidth of an operand or of its output.

Source: tt-buda, balancer/policies/policy_utils.cpp: the NoC at half its width, a DRAM channel shared by its readers,
parameters that stay in L1 counted as nothing.
"""

from __future__ import annotations

from math import ceil

from opscope.compiler.buda.balancer.budget import DRAM_BYTES_PER_CLOCK, DRAM_SUBCHANNELS, Budget
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.graph import BudaGraph, Edge, NodeKind

LEAST_READERS = 2
"""Fewest readers that are assumed to share a DRAM channel."""
SPREAD = 1.5
"""Factor for uneven sharing of channels, as if there were this many times fewer."""


def limiter_cycles(graph: BudaGraph, name: str, model: OpModel, budget: Budget, dram_cores: int = 0) -> int:
    """Returns cycles per input, including data movement; `dram_cores` cores in the op's epoch read or write DRAM."""
    noc = budget.noc_bytes_per_clock / 2
    dram = dram_bytes_per_clock(budget, dram_cores)
    worst = float(model.cycles)
    for edge in graph.operands(name):
        source = graph.node(edge.producer)
        if model.parameters[edge.operand] is not None or _is_picker(model, edge):
            continue
        worst = max(worst, model.inputs[edge.operand].total_bytes / (noc if source.op is not None else dram))
    to_dram = any(graph.node(edge.consumer).kind in (NodeKind.OUTPUT, NodeKind.QUEUE) for edge in graph.users(name))
    return ceil(max(worst, model.output.total_bytes / (dram if to_dram else noc)))


def dram_bytes_per_clock(budget: Budget, cores: int) -> float:
    """Returns the DRAM bandwidth of one core when `cores` use it."""
    channels = budget.dram_channels * DRAM_SUBCHANNELS[budget.arch] / SPREAD
    return DRAM_BYTES_PER_CLOCK[budget.arch] / max(LEAST_READERS, ceil(cores / channels))


def _is_picker(model: OpModel, edge: Edge) -> bool:
    return model.spec.sparse is not None and edge.operand == 0
