"""Finds the arguments of a function that are parameters, by where they are used."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from opscope.compiler.dialects.epoch_types import is_backward
from opscope.compiler.translations.ttir_to_graph.names import MOVES

WEIGHT_OPERAND = {"ttir.matmul": 1, "ttir.conv2d": 1}
"""Op -> the operand that weights are passed as."""


def parameters(block: Block) -> frozenset[int]:
    """Returns the indices of arguments that are vectors, are repeated, or come second in a product, moved or not."""
    return frozenset(i for i, arg in enumerate(block.args) if _is_vector(arg) or _weighs(arg))


def _is_vector(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and len(value.type.get_shape()) <= 1


def _weighs(value: SSAValue) -> bool:
    for use in value.uses:
        if is_backward(use.operation):
            continue  # A gradient multiplies by activations in the same way as a layer multiplies by weights.
        name = use.operation.name
        if name == "ttir.broadcast" or WEIGHT_OPERAND.get(name) == use.index:
            return True
        if name.removeprefix("ttir.") in MOVES and any(_weighs(result) for result in use.operation.results):
            return True
    return False
