"""Ribbon: puts the ops of each epoch in a band of one height, the height that gets most work done.

Ops with the same number of rows feed each other core by core, without gathering. For each epoch every height is tried;
the one with the most work per cycle of the slowest op is kept. TT-Buda's Ribbon then also enlarges the slowest ops and
pairs sparse with dense matmuls; this one does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.cycles.estimate import theoretical
from opscope.compiler.buda.balancer.limiter import limiter_cycles
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.policies.base import Choice, PolicyOptions
from opscope.compiler.buda.balancer.solver import Solver
from opscope.compiler.buda.graph import Node
from opscope.compiler.buda.placer.epochs import CoreGrid, OpToPlace, try_place

DEFAULT_TARGET = 95_000
"""Target for the cycles per op."""
PENALTY = {"matmul": 1, "sparse_matmul": 128}
"""Divisor of an op's work; 8 for other ops."""
OTHER_PENALTY = 8
PROXIMITY = (2, 5, 10, 20)
CLOSENESS = (0.8, 1.0, 1.2)


@dataclass(frozen=True)
class Trial:
    """An epoch with the ops that it would have at one height."""

    height: int
    models: tuple[tuple[str, OpModel], ...]
    score: float


class Ribbon:
    """Takes, for each epoch, the height of band that does the most work per cycle."""

    name: ClassVar[str] = "Ribbon"

    def __init__(self, options: PolicyOptions) -> None:
        self.options = options
        self._best: dict[Hashable, tuple[OpModel, int]] = {}

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and the reason."""
        chosen: dict[str, Choice] = {}
        ops = solver.graph.ops
        while len(chosen) < len(ops):
            rest = ops[len(chosen) :]
            trials = []
            for height in range(1, budget.grid.r + 1):
                mark = solver.mark()
                trials.append(self._epoch(solver, budget, rest, height))
                solver.rewind(mark)
            best = max(trials, key=lambda trial: trial.score)
            why = f"ribbon of {best.height} rows, {best.score:.1f} useful cycles per cycle of the epoch's slowest op"
            for name, model in best.models:
                solver.set(name, model)
                chosen[name] = Choice(model, why)
        return chosen

    def _epoch(self, solver: Solver, budget: Budget, ops: tuple[Node, ...], height: int) -> Trial:
        cores, placed, work, slowest = CoreGrid(budget.grid), [], 0.0, 1
        for node in ops:
            if node.spec.epoch_type != ops[0].spec.epoch_type:
                break
            model, limit = self.pick(solver, budget, node, height)
            placement = try_place(OpToPlace(node.name, model.grid), cores, transpose=True)
            if placement is None:
                break
            cores.take(placement)
            solver.set(node.name, model)
            placed.append((node.name, model))
            useful = theoretical(budget.arch, node, model.block, model.inputs) or model.cycles
            work += useful * model.grid.volume / PENALTY.get(node.spec.type, OTHER_PENALTY)
            slowest = max(slowest, limit)
        return Trial(height, tuple(placed), work / slowest)

    def pick(self, solver: Solver, budget: Budget, node: Node, height: int) -> tuple[OpModel, int]:
        """Returns the best op model for a band of that height, and its limiter's cycles."""
        possible = solver.at(node.name)
        sources = tuple(solver.graph.node(e.producer).kind for e in solver.graph.operands(node.name))
        sinks = tuple(solver.graph.node(e.consumer).kind for e in solver.graph.users(node.name))
        key = (solver.domain(node.name), id(solver.models[node.name][0]), height, sources, sinks)
        if key not in self._best:
            target = self.options.target_cycles or DEFAULT_TARGET
            ranked = [(model, limiter_cycles(solver.graph, node.name, model, budget)) for model in possible]
            best = ranked[0]
            for candidate in ranked[1:]:
                if better(candidate, best, height, target):
                    best = candidate
            self._best[key] = best
        return self._best[key]


def better(candidate: tuple[OpModel, int], current: tuple[OpModel, int], height: int, target: int) -> bool:
    """Whether the candidate is preferred: rows near the band's, few columns if fast enough, near the target, large."""
    both_fast = candidate[1] <= target and current[1] <= target
    ours, best = (
        (_shape(model, height), both_fast * model.grid.c, quality(model, limit, target))
        for model, limit in (candidate, current)
    )
    return ours < best


def _shape(model: OpModel, height: int) -> tuple[int, int]:
    return abs(height - model.grid.r), model.grid.r


def quality(model: OpModel, limit: int, target: int) -> tuple[float, ...]:
    """Returns how good an op model is near the target, the best lowest; compared field by field."""
    off = max(limit, target) / min(limit, target)
    closeness = sum(limit >= target * bound for bound in CLOSENESS)
    small_step = model.spec.is_matmul and model.u_kt < 4
    small_block = model.block.t > 1 and model.block.tiles < 8
    first = (sum(off >= bound for bound in PROXIMITY), small_step, small_block, closeness)
    if closeness == len(CLOSENESS):
        return (*first, limit)
    return (*first, -model.block.tiles, -model.cycles / limit)
