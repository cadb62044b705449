"""The protocol of policies, which choose an op model for each op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.solver import Solver


@dataclass(frozen=True)
class PolicyOptions:
    """Options of policies."""

    seed: int = 0
    """Seed of the random policy."""
    target_cycles: int = 0
    """Cycles that no op should exceed; 0 if the policy computes them or takes its default."""


@dataclass(frozen=True)
class Choice:
    """An op model, and why the policy took it."""

    model: OpModel
    why: str


class Policy(Protocol):
    """Chooses a model for every op; each choice narrows what the solver leaves to the others."""

    name: ClassVar[str]

    def __init__(self, options: PolicyOptions) -> None: ...

    def choose(self, solver: Solver, budget: Budget) -> Mapping[str, Choice]:
        """Returns op -> its model and why; the models fit together along all edges that the solver did not cut."""
        ...
