"""Chooses the ops that stay on the host: integers, embeddings, moves of host values, and ops on parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Set

from xdsl.ir import Block, Operation, OpResult, SSAValue

from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.translations.ttir_to_graph.arguments import DEVICE_COMPARES, NO_CONSTEVAL
from opscope.compiler.translations.ttir_to_graph.names import HOST, MOVES
from opscope.compiler.translations.ttir_to_graph.values import RANK


def host_ops(block: Block, weights: Set[int]) -> dict[Operation, NodeKind]:
    """Returns the ops that the host computes -> how often: once (parameters, constants) or for each input."""
    return {value.owner: kind for value, kind in host_values(block, weights).items() if isinstance(value, OpResult)}


def host_values(block: Block, weights: Set[int]) -> dict[SSAValue, NodeKind]:
    """Returns the values that the host has before the device runs, arguments included -> how often they change."""
    kinds: dict[SSAValue, NodeKind] = {
        arg: NodeKind.PARAMETER if i in weights else NodeKind.INPUT for i, arg in enumerate(block.args)
    }
    for op in block.ops:
        kind = None if op.name == "func.return" else host_kind(op, kinds)
        if kind is not None:
            kinds.update(dict.fromkeys(op.results, kind))
    return kinds


def host_kind(op: Operation, kinds: Mapping[SSAValue, NodeKind]) -> NodeKind | None:
    """Returns how often the host computes an op, if it is the host that does; `kinds` are the values that it has."""
    if any(operand not in kinds for operand in op.operands):
        return None
    kind = max((kinds[operand] for operand in op.operands), key=lambda k: RANK[k], default=NodeKind.CONSTANT)
    name = op.name.removeprefix("ttir.")
    function = op.parent_op()
    compares = function is not None and DEVICE_COMPARES in function.attributes
    types = [str(value.type).split("x")[-1].rstrip(">") for value in (*op.operands, *op.results)]
    whole = any("f" not in kind and not (compares and kind == "i1") for kind in types)
    consteval = function is None or NO_CONSTEVAL not in function.attributes
    folded = kind is not NodeKind.INPUT and (consteval or not op.operands)
    return kind if folded or whole or name in MOVES or name in HOST else None
