"""Random: chooses at random from a seed, to find other plans that work."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.policies.base import Choice, PolicyOptions
from opscope.compiler.buda.balancer.solver import Solver


class RandomChoice:
    """Takes any of the remaining models. The same seed gives the same choices (not those of TT-Buda's generator)."""

    name: ClassVar[str] = "Random"

    def __init__(self, options: PolicyOptions) -> None:
        self.options = options

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and the reason."""
        lots = random.Random(self.options.seed)
        chosen = {}
        for node in solver.graph.ops:
            possible = solver.at(node.name)
            model = lots.choice(possible)
            solver.set(node.name, model)
            chosen[node.name] = Choice(model, f"drawn from {len(possible)} models with seed {self.options.seed}")
        return chosen
