"""Nops that a program asks for: copies between an op or an input and some of its readers (tt-buda: insert_nop)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opscope.compiler.buda.buffering import with_nop
from opscope.compiler.buda.graph import BudaGraph, Edge, NodeKind
from opscope.compiler.errors import CompilerInputError

MOVES = frozenset({"splice", "nop", "tilizer"})
"""Ops that move data and compute nothing: what reads their results reads their operands."""


@dataclass(frozen=True)
class Nop:
    """Where nops go. One serves all readers; in a daisy chain each serves one of them and the next nop."""

    source: str
    readers: tuple[str, ...]
    hoist_tms: bool = True
    """Whether what moves data on the way is done before the nop, and not after it."""
    count: int = 1
    """How many, one after the other."""
    daisy_chain: bool = False

    def inserted(self, graph: BudaGraph) -> BudaGraph:
        """Returns the graph with the nops behind the source, named as TT-Buda names them.

        Raises CompilerInputError if a reader does not read it.
        """
        source = self.source
        for number in range(self.count):
            groups = [self.readers[i:] for i in range(len(self.readers))] if self.daisy_chain else [self.readers]
            for group in groups:
                name = f"buffer_{number}_{source}_{group[0]}"
                graph = self._behind(graph, source, name, group)
                source = name
        return graph

    def _behind(self, graph: BudaGraph, source: str, name: str, readers: tuple[str, ...]) -> BudaGraph:
        edges: list[Edge] = []
        for reader in readers:
            leading = [edge for edge in graph.users(source) if _leads_to(graph, edge, reader)]
            if not leading:
                raise CompilerInputError(f"insert_nop: expected an op that reads {self.source}, got {reader!r}")
            edges += [edge for edge in leading if edge not in edges]
        producer = graph.node(source)
        tms = edges[0].tms
        graph = with_nop(graph, name, edges)
        # Readers that move data in different ways, and parts of tiles, are moved behind the nop in any case.
        whole = producer.extent == replace(producer, elements=None).extent
        if not (self.hoist_tms and tms and whole) or any(edge.tms != tms for edge in edges):
            return graph
        shape = graph.operand_shape(edges[0])
        moved_nop = replace(graph.node(name), shape=shape, elements=None)
        nodes = tuple(moved_nop if node.name == name else node for node in graph.nodes)
        moved = tuple(
            replace(edge, tms=tms)
            if edge.consumer == name
            else replace(edge, tms=())
            if edge.producer == name
            else edge
            for edge in graph.edges
        )
        return BudaGraph(graph.name, nodes, moved)


def tilized(graph: BudaGraph) -> BudaGraph:
    """Returns the graph with a tilizer between each input and each of its readers, named as TT-Buda names them.

    The card then makes the tiles, which the host makes otherwise: an op of one row of tiles at a time.
    """
    for node in graph.nodes:
        for edge in graph.users(node.name) if node.kind is NodeKind.INPUT else ():
            graph = with_nop(graph, f"{node.name}_{edge.consumer}_tilizer", [edge], "tilizer")
    return graph


def _leads_to(graph: BudaGraph, edge: Edge, reader: str) -> bool:
    """Whether the data of an edge reaches an op, with nothing computed on the way."""
    consumer = graph.node(edge.consumer)
    if consumer.name == reader:
        return True
    moves = consumer.op is not None and consumer.op.type in MOVES
    return moves and any(_leads_to(graph, further, reader) for further in graph.users(consumer.name))
