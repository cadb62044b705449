"""Automatic mixed precision: narrower formats where a product tolerates them (tt-buda: csrc/passes/amp.cpp).

| level | products | other ops |
|---|---|---|
| 0 | as they are | as they are |
| 1 | operands, result and partial results Bfp8_b, Dst Float16_b, HiFi2 | as they are |
| 2 | operands and result Bfp8, partial results and Dst Float16 | Float16; a gelu's partial results Bfp8 |

TT-Buda's documentation describes level 1 differently (optimizer ops in Float32 with HiFi4); this follows its code.
"""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.buda.graph import BudaGraph, Node
from opscope.compiler.target.formats import number_format

LEVELS = (0, 1, 2)
FORMATS = {1: ("Bfp8_b", "Float16_b"), 2: ("Bfp8", "Float16")}
"""Level -> format that products read and write, and the wider format."""


def mixed_precision(graph: BudaGraph, level: int) -> BudaGraph:
    """Returns the graph at a level. A convolution's gather only moves data and keeps its fidelity."""
    if not level:
        return graph
    narrow, wide = FORMATS[level]
    by_product = {
        edge.producer
        for node in graph.ops
        if node.spec.type in ("matmul", "depthwise")
        for edge in graph.operands(node.name)
        if graph.node(edge.producer).op is None
    }
    return BudaGraph(
        graph.name, tuple(_at(node, level, narrow, wide, node.name in by_product) for node in graph.nodes), graph.edges
    )


def _at(node: Node, level: int, narrow: str, wide: str, feeds_product: bool) -> Node:
    if not number_format(node.data_format).is_float or node.data_format.startswith("Bfp2"):
        return node
    if node.op is None:
        # All inputs of an op share an exponent family; level 2 uses Float16's.
        kept = node.data_format if level == 1 else wide
        return replace(node, data_format=narrow if feeds_product else kept)
    if node.spec.type in ("matmul", "depthwise"):
        op = replace(
            node.spec,
            acc_format=wide,
            intermediate_format=narrow if level == 1 else wide,
            math_fidelity="HiFi2" if level == 1 else node.spec.math_fidelity,
        )
        return replace(node, data_format=narrow, op=op)
    if level == 1:
        return node
    partial = narrow if node.spec.type == "gelu" else node.spec.intermediate_format
    return replace(node, data_format=wide, op=replace(node.spec, acc_format=wide, intermediate_format=partial))
