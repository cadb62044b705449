"""NLP: makes all ops about equally slow. It is TT-Buda's default.

The pipeline is as fast as its slowest op, so cores given to the others are wasted. A target is computed from the dense
matmuls, and each op takes the slowest model within it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.policies.base import Choice, PolicyOptions
from opscope.compiler.buda.balancer.policies.buckets import pick
from opscope.compiler.buda.balancer.solver import Solver
from opscope.compiler.buda.graph import BudaGraph, Node

LEAST_TARGET, MOST_TARGET = 45_000, 125_000
"""Bounds of the target, in cycles (tt-buda, policy_nlp.hpp)."""
SLACK = 1.2
FILTER = 0.85
"""A matmul that can take less than this share of the slowest one's cycles does not count."""
ROWS_PER_CORE = 6
"""Rows of tiles per row of cores."""


class Nlp:
    """Takes, op by op, the slowest model within a target that all ops share, computed from the dense matmuls (45,000 to
    125,000 cycles). The default."""

    name: ClassVar[str] = "NLP"

    def __init__(self, options: PolicyOptions) -> None:
        self.options = options

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and the reason."""
        volumes = least_prologue_volumes(solver)
        target = self.options.target_cycles or target_cycles(solver, volumes)
        chosen = {}
        for node in solver.graph.ops:
            possible = solver.at(node.name)
            rows = target_rows(node)
            picked = pick(possible, rows, target, volumes[parameter_of(solver.graph, node)])
            solver.set(node.name, picked.model)
            best = "fastest" if picked.bucket.startswith("too_slow") else "slowest"
            why = f"{picked.why(best, rows)}, target {target} cycles; {len(possible)} models in all"
            chosen[node.name] = Choice(picked.model, why)
        return chosen


def target_rows(node: Node) -> int:
    """Returns the rows of cores that an op should have."""
    return max(1, node.shape.rt // ROWS_PER_CORE)


def parameter_of(graph: BudaGraph, node: Node) -> str:
    """Returns the producer of an op's right operand; empty if it has none."""
    operands = graph.operands(node.name)
    return operands[1].producer if len(operands) > 1 else ""


def _dense_matmuls(graph: BudaGraph) -> list[Node]:
    return [node for node in graph.ops if node.spec.type == "matmul"]


def least_prologue_volumes(solver: Solver) -> Counter[str]:
    """Returns parameter -> the smallest grid on which every matmul that reads it can keep it in L1."""
    volumes = Counter[str]()
    for node in _dense_matmuls(solver.graph):
        resident = [m.grid.volume for m in solver.at(node.name) if m.parameters[1] is not None]
        if resident:
            name = parameter_of(solver.graph, node)
            volumes[name] = max(volumes[name], min(resident))
    return volumes


def target_cycles(solver: Solver, volumes: Counter[str]) -> int:
    """Returns the cycles that all ops should stay within: the needs of the fastest relevant matmul on a small grid."""
    matmuls = _dense_matmuls(solver.graph)
    fastest = [
        min(cycles) for node in matmuls if (cycles := _cycles_of_large_shares(solver.at(node.name), target_rows(node)))
    ]
    least = FILTER * max(fastest, default=0)
    small = []
    for node in matmuls:
        volume = volumes[parameter_of(solver.graph, node)]
        models = [m for m in solver.at(node.name) if m.grid.volume >= volume]
        if models:
            wanted = [m for m in models if m.grid.r == target_rows(node)] or models
            small.append(min(wanted, key=lambda m: m.grid.volume).cycles)
    slow = [cycles for cycles in small if cycles >= least]
    return int(min(max(SLACK * min(slow, default=LEAST_TARGET), LEAST_TARGET), MOST_TARGET))


def _cycles_of_large_shares(models: tuple[OpModel, ...], rows: int) -> list[int]:
    """Returns the cycles of models with the wanted rows and at least 4 x 3 tiles on each core."""
    return [m.cycles for m in models if m.grid.r == rows and m.block.ct >= 3 and m.block.rt >= 4]
