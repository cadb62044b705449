"""Ops without a legal model get one: what moves their results or operands is done from DRAM, or by nops."""

from __future__ import annotations

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.failure import OpModelFailureReason as Reason
from opscope.compiler.buda.balancer.legalizer import LegalModels, NoLegalModel, legalize_graph
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.graph import BudaGraph, Edge
from opscope.compiler.buda.nops import Nop

BY_USERS = frozenset({Reason.UserAccessPreventsStreaming, Reason.OperandAndUserAccessPreventsStreaming})
BY_OPERANDS = frozenset(
    {
        Reason.OperandAccessPreventsStreaming,
        Reason.OperandAndUserAccessPreventsStreaming,
        Reason.IllegalStackForGrid,
    }
)


def relieved(
    graph: BudaGraph, budget: Budget, options: LegalizerOptions | None = None
) -> tuple[BudaGraph, dict[str, LegalModels], tuple[Edge, ...]]:
    """Returns the graph, perhaps with nops, every op's candidates, and edges whose data has to wait in DRAM.

    Readers that move what an op makes, so that it cannot be cut in time, take it from DRAM; stacks of an operand that
    keep an op from a model are a nop's. All such ops at once, since a deep model has many that are alike. Raises
    NoLegalModel where that does not help, CompilerInputError for a bad override.
    """
    in_dram: dict[Edge, None] = {}
    while True:
        try:
            return graph, legalize_graph(graph, budget, options, in_dram), tuple(in_dram)
        except NoLegalModel as error:
            before = graph, len(in_dram)
            for legal in error.ops:
                name, reasons = legal.node.name, set(legal.failures)
                if reasons & BY_USERS:
                    in_dram |= dict.fromkeys(edge for edge in graph.users(name) if _moved(graph, edge))
                if reasons & BY_OPERANDS:
                    graph = _with_stacks_apart(graph, name)
            if (graph, len(in_dram)) == before:
                raise


def _moved(graph: BudaGraph, edge: Edge) -> bool:
    return bool(edge.tms) and graph.node(edge.consumer).op is not None


def _with_stacks_apart(graph: BudaGraph, name: str) -> BudaGraph:
    for edge in graph.operands(name):
        if graph.node(edge.producer).op is not None and any(tm.is_stack for tm in edge.tms):
            apart = Nop(edge.producer, (name,)).inserted(graph)
            # What parts of tiles are stacked stays behind the nop, which is then of no use.
            if not next(other for other in apart.operands(name) if other.operand == edge.operand).tms:
                graph = apart
    return graph
