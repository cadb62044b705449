"""The two scalars of a `stablehlo.rng`: arguments of its module, or constants in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.values import constant_array


def bounds(module: bytes, inputs: Sequence[np.ndarray]) -> tuple[float, float]:
    """The bounds of the interval, or mean and deviation, of the one such op of a module with these arguments."""
    loaded = load(module)  # named, since its ops live no longer than it does
    [block] = loaded.body.operations[0].operation.regions[0].blocks
    values: dict[ir.Value, np.ndarray] = dict(zip(block.arguments, inputs, strict=True))
    for view in block.operations:
        op = view.operation
        if op.name == "stablehlo.rng":
            low, high = (float(values[operand].reshape(())) for operand in list(op.operands)[:2])
            return low, high
        if op.name == "stablehlo.constant" and (array := constant_array(op)) is not None:
            values[op.results[0]] = array
    raise ValueError("stablehlo.rng: expected one in its module, got none; try preparing the model again")
