"""The limits that padding and unpadding on an op's edges set for its block shape."""

from __future__ import annotations

from opscope.compiler.buda.balancer.shapes import BlockShape
from opscope.compiler.buda.graph import BudaGraph, Node, Tm


def padding_fits(graph: BudaGraph, node: Node, block: BlockShape) -> bool:
    """Whether every core makes some data that is read, and padding after a stack consists of whole stacked pieces.

    A core whose output is never read would wait forever; a core that computes only padding is wasted.
    """
    for edge in graph.users(node.name):
        if not _smaller(next((tm for tm in edge.tms if tm.name == "buda_unpad"), None), block):
            return False
    for edge in graph.operands(node.name):
        if not _smaller(next((tm for tm in edge.tms if tm.name == "buda_pad"), None), block):
            return False
        shape = graph.node(edge.producer).shape
        for tm, after in zip(edge.tms, edge.tms[1:], strict=False):
            piece = shape.rt if tm.name == "vstack" else shape.ct
            pad = after.rt if tm.name == "vstack" else after.ct
            if tm.is_stack and after.name == "buda_pad" and pad % piece:
                return False
            shape = tm.apply(shape)
    return True


def _smaller(tm: Tm | None, block: BlockShape) -> bool:
    return tm is None or (tm.rt < block.rt and tm.ct < block.ct)
