"""MaximizeTMinimizeGrid: as many pieces in time as possible, on as few cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.policies.base import Choice, PolicyOptions
from opscope.compiler.buda.balancer.solver import Solver


class MaximizeTMinimizeGrid:
    """Takes, op by op, the largest t, then the grid with the fewest rows plus columns, then the fewest rows."""

    name: ClassVar[str] = "MaximizeTMinimizeGrid"

    def __init__(self, options: PolicyOptions) -> None:
        self.options = options

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and the reason."""
        chosen = {}
        for node in solver.graph.ops:
            possible = solver.at(node.name)
            model = min(possible, key=lambda m: (-m.block.t, m.grid.perimeter, m.grid.r))
            solver.set(node.name, model)
            why = f"largest t ({model.block.t}) of {len(possible)} models, then fewest rows plus columns of cores"
            chosen[node.name] = Choice(model, why)
        return chosen
