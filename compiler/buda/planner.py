"""Plans a Buda graph: chooses each op's model and cores, epoch after epoch, and records why."""

from __future__ import annotations

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.policies import PolicyOptions, policy
from opscope.compiler.buda.balancer.solver import Solver
from opscope.compiler.buda.buffering import buffered, split_forks
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.placer.epochs import OpToPlace, PlacerOptions, place
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.relief import relieved
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import also_harvested, load_board


def budget_of(arch: str, harvested: int = 0) -> Budget:
    """Returns the budget of a board or arch, without the rows of the mask; `a,b` means several cards of one kind.

    Raises ValueError, CompilerInputError.
    """
    kinds = {load_board(name.strip()).arch for name in arch.split(",")}
    if len(kinds) > 1:
        raise CompilerInputError(f"arch: expected one kind of card in a device, got {', '.join(sorted(kinds))}")
    arch = arch.split(",")[0].strip()
    try:
        return Budget.of(also_harvested(load_board(arch), harvested))
    except ValueError as error:
        raise CompilerInputError(str(error)) from error


def plan(
    graph: BudaGraph,
    budget: Budget,
    policy_name: str = "default",
    legalizer: LegalizerOptions | None = None,
    policy_options: PolicyOptions | None = None,
    placer: PlacerOptions | None = None,
) -> BudaPlan:
    """Plans `graph`. Raises CompilerInputError for an op without a legal model, an unknown policy, a bad override."""
    chosen = policy(policy_name, policy_options)
    graph = split_forks(graph)
    graph, legal, in_dram = relieved(graph, budget, legalizer)
    models = {}
    known: dict[int, tuple] = {}
    for name, legal_of_op in legal.items():
        models[name] = known.setdefault(id(legal_of_op.candidates), legal_of_op.models)
    solver = Solver(graph, models, in_dram)
    choices = chosen.choose(solver, budget)
    ops = [
        OpToPlace(node.name, choices[node.name].model.grid, node.spec.epoch_type, choices[node.name].model.cycles)
        for node in graph.ops
    ]
    epochs = place(ops, budget.grid, placer)
    planned = BudaPlan(graph, budget, chosen.name, legal, choices, tuple(solver.cuts), epochs)
    return buffered(planned, legalizer or LegalizerOptions())
