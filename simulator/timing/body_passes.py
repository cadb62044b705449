"""Counts how often a kernel applies the operations of its body, for `operation.py`.

The count is in passes over the tiles that the kernel's cores hold: a reduction visits every tile of its operand once,
a window reduction every tile of its result once per place in the window, a sorting network both sides of every pair
once per stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opscope.compiler.target.program import (
    BodyReduceParams,
    BodyWindowParams,
    EltwiseParams,
    IndexedRowsParams,
    Operation,
    Program,
    ScatterParams,
    SelectScatterParams,
    SortParams,
    TensorDesc,
    TopkParams,
    programs_of,
)


@dataclass(frozen=True)
class Passes:
    """Operations of the bodies, each with its program, and how often they are applied."""

    steps: tuple[tuple[Operation, Program], ...]
    count: float


def body_passes(
    op: Operation, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], programs: Mapping[str, Program]
) -> Passes | None:
    """Returns the passes of an operation that applies bodies; None for any other operation."""
    match op.params:
        case BodyReduceParams():
            count = 1.0
        case BodyWindowParams(window=window) | SelectScatterParams(window=window):
            count = float(math.prod(window))
        case ScatterParams():
            count = 1.0
        case IndexedRowsParams():
            if op.kernel != "rows_scatter":
                return None
            count = 1.0
        case SortParams(dim=dim):
            count = 2 * stages(inputs[0].shape[dim] if inputs[0].shape else 1)
        case TopkParams():
            count = 2 * stages(inputs[0].shape[-1])
        case _:
            return None
    passes = [
        (step, programs[name])
        for name in programs_of(op.params)
        for step in programs[name].operations
        if isinstance(step.params, EltwiseParams)
    ]
    compares = isinstance(op.params, TopkParams) or (isinstance(op.params, SortParams) and not op.params.programs)
    named = getattr(op.params, "combine", "") or ("lt" if compares else "")
    if named:
        # A body that is one kernel has no program: that kernel on the result.
        step = Operation("maximum" if named == "update" else named, (), (0,), EltwiseParams())
        passes.append((step, Program("", (outputs[0],), (), (), ())))
    return Passes(tuple(passes), count)


def stages(size: int) -> float:
    """Passes over all elements of a bitonic network of `size`: log2 n (log2 n + 1) / 2, half of them compared."""
    depth = max(size - 1, 0).bit_length()
    return depth * (depth + 1) / 4
