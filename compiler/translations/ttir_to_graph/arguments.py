"""Finds the arguments of a function that are parameters, by where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Set

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from opscope.compiler.dialects.epoch_types import is_backward
from opscope.compiler.translations.ttir_to_graph.names import MOVES

WEIGHT_OPERAND = {"ttir.matmul": 1, "ttir.conv2d": 1}
"""Op -> the operand that weights are passed as."""


PARAMETERS = "buda.parameters"
"""The attribute of a function whose parameters are known."""
NO_CONSTEVAL = "buda.no_consteval"
"""The attribute of a function in which the device computes what follows from parameters alone."""

DEVICE_COMPARES = "buda.device_compares"
"""The attribute of a function in which the device compares floats of the host, as there is nothing else for it."""


def mark_parameters(entry: FuncOp, indices: Iterable[int]) -> None:
    """Notes which arguments are parameters, so that `parameters` need not find out."""
    entry.attributes[PARAMETERS] = ArrayAttr([IntegerAttr(index, 32) for index in sorted(indices)])


def parameters(block: Block, all_inputs: bool = False) -> frozenset[int]:
    """Returns the indices of arguments that are parameters: those that are noted, else by their uses.

    These are arguments that are vectors, are repeated, or come second in a product, moved or not. A vector is an
    input if its product with a weight would be computed from parameters alone: the time step of a diffusion model.
    With `all_inputs` there are none.
    """
    if all_inputs:
        return frozenset()
    function = block.parent_op()
    noted = function.attributes.get(PARAMETERS) if function is not None else None
    if isinstance(noted, ArrayAttr):
        return frozenset(index.value.data for index in noted if isinstance(index, IntegerAttr))
    candidates = frozenset(i for i, arg in enumerate(block.args) if _is_vector(arg) or _weighs(arg))
    return candidates - _multiplied_vectors(block, candidates)


def _multiplied_vectors(block: Block, candidates: Set[int]) -> frozenset[int]:
    """Returns the vectors among the candidates of which a product takes something as its first operand, where nothing
    else than parameters and constants went into that operand."""
    sources: dict[SSAValue, frozenset[int]] = {
        block.args[i]: frozenset([i] if _is_vector(block.args[i]) else []) for i in candidates
    }
    inputs: set[int] = set()
    for op in block.ops:
        if any(operand not in sources for operand in op.operands):
            continue
        if op.name in WEIGHT_OPERAND and sources[op.operands[0]]:
            inputs |= sources[op.operands[0]]
            continue
        from_vectors = frozenset[int]().union(*(sources[operand] for operand in op.operands))
        sources.update(dict.fromkeys(op.results, from_vectors))
    return frozenset(inputs)


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
