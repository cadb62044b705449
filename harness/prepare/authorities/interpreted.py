"""StableHLO's interpreter as an authority: each element by the specification, narrow floats in float32 as in goldens.

An op that it does not know ends its process: for a child alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.mlir import interpreter
from opscope.harness.record.records import OpRow

MOST_SECONDS = 10.0
A_STEP = 0.67e-6
"""Seconds of a multiplication and an addition (measured)."""
AN_ELEMENT = 2.9e-6
"""Seconds of an element that is read or written by itself (measured)."""


class NoAnswerError(Exception):
    """The interpreter does not take an op; the text is the reason."""


def computed(row: OpRow, module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op. Raises NoAnswerError if the interpreter is known not to take it, or for too long."""
    elements = sum(math.prod(desc.shape) for desc in (*row.inputs, *row.outputs))
    try:
        loaded = interpreter.legalised(mlir.to_bytecode(golden.widened(mlir.load(module))))
        if reason := interpreter.refusal(loaded):
            raise NoAnswerError(reason)
        work = interpreter.work(loaded)
        seconds = work * A_STEP + elements * AN_ELEMENT
        if seconds > MOST_SECONDS:
            raise NoAnswerError(f"too large (about {seconds:.0f} s, at most {MOST_SECONDS:g} s are interpreted)")
        return interpreter.evaluate(loaded, inputs)
    except interpreter.InterpreterError as error:
        raise NoAnswerError(str(error).partition("\n")[0]) from error
