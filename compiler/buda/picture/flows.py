"""What flows between the ops of a plan, for the page: producer, consumer, tiles, and the pipes that carry them."""

from __future__ import annotations

from opscope.compiler.buda.graph import Edge, NodeKind
from opscope.compiler.buda.plan import BudaPlan


def flows(plan: BudaPlan) -> list[dict[str, str]]:
    """Returns a row per edge between ops and per queue that an op reads: both names, and what carries the data."""
    where = {p.op.name: (epoch.number, epoch.chip) for epoch in plan.epochs for p in epoch.placements}
    cut = set(plan.cuts)
    rows = []
    for edge in plan.graph.edges:
        if edge.consumer not in where or plan.graph.node(edge.producer).kind is NodeKind.OUTPUT:
            continue
        rows.append({"from": edge.producer, "to": edge.consumer, "how": _carrier(plan, edge, where, edge in cut)})
    return rows


def _carrier(plan: BudaPlan, edge: Edge, where: dict[str, tuple[int, int]], cut: bool) -> str:
    """Returns the way of one operand: how many tiles, after which TMs, from which cores to which."""
    node, reader = plan.graph.node(edge.producer), plan.choices[edge.consumer].model
    tms = f" | {' | '.join(str(tm) for tm in edge.tms)}" if edge.tms else ""
    cores = reader.input_grid(edge.operand)
    spread = reader.grid.volume // cores.volume
    to = f"{cores} cores" + (f", each multicast to {spread}" if spread > 1 else "")
    tiles = f"{node.shape.tiles:,} tiles of {node.data_format}{tms}"
    if edge.producer not in where:
        return f"{tiles}, queue in DRAM or of the host to {to}"
    sender = plan.choices[edge.producer].model
    if cut or where[edge.producer] != where[edge.consumer]:
        return f"{tiles}, queue in DRAM: {sender.grid} cores to {to}"
    pieces = f"{sender.block.t} pieces" if sender.block.t > 1 else "one piece"
    return f"{tiles} in {pieces}, pipes from {sender.grid} cores to {to}"
