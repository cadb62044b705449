"""What stays on the host: integers, embeddings, moves of what it has, and whatever is made of parameters alone."""

from __future__ import annotations

from collections.abc import Set

from xdsl.ir import Block, Operation, OpResult, SSAValue

from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.translations.ttir_to_graph.names import HOST, MOVES
from opscope.compiler.translations.ttir_to_graph.values import RANK


def host_ops(block: Block, weights: Set[int]) -> dict[Operation, NodeKind]:
    """The ops of a function that the host does -> how often: once (of parameters, constants) or for each input."""
    return {value.owner: kind for value, kind in host_values(block, weights).items() if isinstance(value, OpResult)}


def host_values(block: Block, weights: Set[int]) -> dict[SSAValue, NodeKind]:
    """What the host has before the device runs, arguments included -> how often it changes."""
    kinds: dict[SSAValue, NodeKind] = {
        arg: NodeKind.PARAMETER if i in weights else NodeKind.INPUT for i, arg in enumerate(block.args)
    }
    for op in block.ops:
        if op.name == "func.return" or any(operand not in kinds for operand in op.operands):
            continue
        kind = max((kinds[operand] for operand in op.operands), key=lambda k: RANK[k], default=NodeKind.CONSTANT)
        name = op.name.removeprefix("ttir.")
        whole = any("f" not in str(value.type).split("x")[-1] for value in (*op.operands, *op.results))
        if kind is not NodeKind.INPUT or whole or name in MOVES or name in HOST:
            kinds.update(dict.fromkeys(op.results, kind))
    return kinds
