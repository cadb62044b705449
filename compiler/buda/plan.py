"""What the planner decides: op models, cores, epochs, cuts, room of forks; and what follows in bytes and cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opscope.compiler.buda.balancer.budget import DRAM_BYTES_PER_CLOCK, Budget
from opscope.compiler.buda.balancer.cycles.estimate import unmeasured
from opscope.compiler.buda.balancer.legalizer import LegalModels
from opscope.compiler.buda.balancer.policies import Choice
from opscope.compiler.buda.graph import BudaGraph, Edge
from opscope.compiler.buda.pipeline import flow
from opscope.compiler.buda.placer.epochs import Epoch

PROGRAM_BYTES = 56 * 1024
"""L1 of a core that holds the programs of its three compute threads (tt-budabackend: L1 map, TRISC sections)."""
ROUTE_BYTES = 65_408
"""L1 of a core that holds its routes (the overlay blob)."""


@dataclass(frozen=True)
class Buffering:
    """Room that an edge got so that no other branch of a fork starves."""

    kind: str
    """`buffer`: a larger output buffer; `nop`: an op that copies; `queue`: DRAM."""
    name: str
    """The op whose buffer is larger, the nop, or the queue."""
    edge: Edge
    why: str


@dataclass(frozen=True)
class BudaPlan:
    """The result of balancing and placing a graph."""

    graph: BudaGraph
    budget: Budget
    policy: str
    legal: Mapping[str, LegalModels]
    choices: Mapping[str, Choice]
    cuts: tuple[Edge, ...]
    """Edges whose data waits in DRAM, because no pair of models streams along them."""
    epochs: tuple[Epoch, ...]
    buffering: tuple[Buffering, ...] = ()
    """Where forks got room, in the order in which it was given."""

    @property
    def cycles(self) -> int:
        """Cycles per input: epochs follow one another, each as fast as its slowest op."""
        return sum(epoch.cycles for epoch in self.epochs)

    @property
    def unmeasured(self) -> Mapping[str, int]:
        """Kinds of op whose cycles were never measured on this chip, and the number of ops of each."""
        return Counter(kind for node in self.graph.ops for kind in unmeasured(self.budget.arch, node))

    def crossing_bytes(self) -> tuple[int, ...]:
        """Per epoch, the bytes of activations that a later one reads, written to DRAM at the switch."""
        where = {p.op.name: epoch.number for epoch in self.epochs for p in epoch.placements}
        crossing = [0] * len(self.epochs)
        for node in self.graph.ops:
            later = [where[e.consumer] for e in self.graph.users(node.name) if e.consumer in where]
            if any(epoch > where[node.name] for epoch in later):
                crossing[where[node.name]] += node.shape.tiles * node.tile_bytes
        return tuple(crossing)

    def load_bytes(self) -> tuple[int, ...]:
        """Per epoch, the bytes of programs and routes that its cores load: the space that TT-Buda reserves for both."""
        return tuple(epoch.cores * (PROGRAM_BYTES + ROUTE_BYTES) for epoch in self.epochs)

    def flow_cycles(self, epoch: Epoch) -> float:
        """Returns the cycles until one input has passed an epoch, pieces overlapping; infinite if it never does."""
        models = {placement.op.name: self.choices[placement.op.name].model for placement in epoch.placements}
        return flow(self.graph, models, list(models), self.cuts).cycles

    def switch_cycles(self) -> tuple[int, ...]:
        """Per epoch, cycles to write its activations to DRAM and to read them back, with all channels busy."""
        return self._dram_cycles(2 * size for size in self.crossing_bytes())

    def load_cycles(self) -> tuple[int, ...]:
        """Per epoch, cycles to load programs and routes from DRAM into L1, with all channels busy."""
        return self._dram_cycles(self.load_bytes())

    def _dram_cycles(self, sizes: Iterable[int]) -> tuple[int, ...]:
        rate = DRAM_BYTES_PER_CLOCK[self.budget.arch] * self.budget.dram_channels
        return tuple(int(size / rate) for size in sizes)
