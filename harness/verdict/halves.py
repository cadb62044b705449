"""Results of quantised tensors: rounded to integers, so that what lies near a half may go either way.

The golden is computed in double precision and rounded once. A device that computes in float32, or in the format of its
matrix unit, ends a little beside it, and where that little decides a rounding, both integers are right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.operands import NotEvaluatedError, Operands

ON_INTEGERS = frozenset(
    f"stablehlo.{name}"
    for name in ("dot_general", "convolution", "add", "subtract", "multiply", "uniform_quantize", "uniform_dequantize")
)
"""Ops that need no more of floats than one factor: they are held to float32's last bits."""
FACTOR = 2.0**-20
"""What one factor in float32 and its conversions may cost, relative: 16 times its rounding."""
STEP = 2.0**-10
"""A result that is nearer to a half than so many steps of its scale may be rounded either way."""


def excused(
    golden: np.ndarray, got: np.ndarray, index: int, plain: ResultCheck, operands: Operands, relative: float
) -> ResultCheck:
    """The verdict on integers that are wrong by `plain`: right within what `relative` and `STEP` move."""
    if golden.shape != got.shape or golden.dtype != got.dtype:
        return plain
    relative = FACTOR if operands.op_name in ON_INTEGERS else relative
    try:
        ends: Sequence[np.ndarray] = [operands.run_quantised(sign * STEP, sign * relative)[index] for sign in (-1, 1)]
    except NotEvaluatedError:
        return plain
    wrong = (got != golden) & ((got < np.minimum(*ends)) | (got > np.maximum(*ends)))
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        least, most = (end[first] for end in ends)
        words = f"{golden[first]}" if least == most else f"{min(least, most)} to {max(least, most)}"
        reason = f"{int(wrong.sum())} of {golden.size} values are wrong: {got[first]} instead of {words} at {first}"
        return plain.model_copy(update={"reason": reason})
    return plain.model_copy(update={"passed": True, "reason": "", "flags": (*plain.flags, "half")})
