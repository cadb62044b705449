"""The reference implementation of the ONNX standard, with the formula of an op in its place where it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class LRN(OpRun):
    """Local response normalisation over channels.

    The reference of onnx 1.23.2 sums the squares of as many channels as there are batch entries, not of all of them.
    """

    op_domain = ""

    def _run(self, x: np.ndarray, alpha: float, beta: float, bias: float, size: int) -> tuple[np.ndarray]:
        squares = np.asarray(x, np.float64) ** 2
        before, channels = (size - 1) // 2, x.shape[1]
        sums = np.stack(
            [squares[:, max(0, c - before) : c - before + size].sum(axis=1) for c in range(channels)], axis=1
        )
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


WRONG = (LRN,)
"""Ops whose own reference is known to be wrong, by their formulas."""


def evaluator(model: ModelProto) -> Any:
    """What runs a model by the standard's reference; `run(None, inputs)` gives its results."""
    return ReferenceEvaluator(model, new_ops=list(WRONG))
