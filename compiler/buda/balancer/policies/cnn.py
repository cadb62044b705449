"""CNN: uses tall grids for convolutions. Deprecated in TT-Buda, kept for comparison."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import ClassVar

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.policies.base import Choice, PolicyOptions
from opscope.compiler.buda.balancer.policies.buckets import pick
from opscope.compiler.buda.balancer.policies.nlp import least_prologue_volumes, parameter_of
from opscope.compiler.buda.balancer.solver import Solver

MOST_SPARSE_CORES = 40
"""Largest grid of a sparse matmul, in cores."""


class Cnn:
    """Takes, op by op, the slowest model on the tallest grid; no target. Deprecated, warns."""

    name: ClassVar[str] = "CNN"

    def __init__(self, options: PolicyOptions) -> None:
        warnings.warn("policy CNN is deprecated, as in TT-Buda; try Ribbon", DeprecationWarning, stacklevel=2)
        self.options = options

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and the reason."""
        volumes = least_prologue_volumes(solver)
        chosen = {}
        for node in solver.graph.ops:
            possible = solver.at(node.name)
            if node.spec.sparse is not None:
                possible = tuple(m for m in possible if m.grid.volume <= MOST_SPARSE_CORES) or possible
            rows = max(model.grid.r for model in possible)
            picked = pick(possible, rows, None, volumes[parameter_of(solver.graph, node)])
            solver.set(node.name, picked.model)
            chosen[node.name] = Choice(picked.model, picked.why("slowest", rows))
        return chosen
