"""XLA, but each op's first result gets the fault that its name has in `FAULTS`: wrong numbers of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from opscope.harness.backends.base import Job
from opscope.harness.backends.xla import Xla
from opscope.harness.prepare.mlir.variant import read
from opscope.harness.record.stages import Stage


def _lost_rows(y: np.ndarray) -> np.ndarray:
    y[..., 32:64, :] = 0
    return y


def _cut(y: np.ndarray) -> np.ndarray:
    return (y.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _one_element(y: np.ndarray) -> np.ndarray:
    y[..., 5, 7] *= 2
    return y


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "stablehlo.dot_general": _lost_rows,
    "stablehlo.exponential": _cut,
    "stablehlo.add": lambda y: y[..., ::-1, :],
    "stablehlo.tanh": lambda y: y.swapaxes(-1, -2),
    "stablehlo.multiply": lambda y: y * np.float32(1.003),
    "stablehlo.log": lambda y: np.where(np.isnan(y), np.float32(np.inf), y),
    "stablehlo.subtract": lambda y: -y,
    "stablehlo.abs": _one_element,
}
HYPOTHESES = {
    "stablehlo.dot_general": "missing: zeros throughout 32 of 128 rows, where -",
    "stablehlo.exponential": "truncated: rounded toward zero to 7 bits",
    "stablehlo.add": "another entry: entries of dim 0 stand in another's place: 0 holds 127, 1 holds 126",
    "stablehlo.tanh": "transposed: the matrix of its last two dims is transposed",
    "stablehlo.multiply": "factor: everything is 1.003 times what it should be",
    "stablehlo.log": "not finite: +Inf stands where NaN is expected: ",
    "stablehlo.subtract": "sign: every value has the other sign",
    "stablehlo.abs": "",
}
"""Op -> how what is told of it begins."""
MODULE = """func.func @main(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = stablehlo.tanh %0 : tensor<128x128xf32>
  %2 = stablehlo.exponential %1 : tensor<128x128xf32>
  %3 = stablehlo.add %2, %b : tensor<128x128xf32>
  %4 = stablehlo.multiply %3, %a : tensor<128x128xf32>
  %5 = stablehlo.log %1 : tensor<128x128xf32>
  %6 = stablehlo.subtract %4, %a : tensor<128x128xf32>
  %7 = stablehlo.abs %6 : tensor<128x128xf32>
  %c = stablehlo.compare LT, %5, %7
    : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xi1>
  %8 = stablehlo.select %c, %7, %5 : tensor<128x128xi1>, tensor<128x128xf32>
  return %8 : tensor<128x128xf32>
}
"""


class SpoiledNumbers(Xla):
    """The backend."""

    name = "spoiled_numbers"

    def fingerprint(self) -> str:
        return "spoiled-1"

    def climb(self, stage: Stage, job: Job) -> None:
        super().climb(stage, job)
        fault = FAULTS.get(read(job.module).name)
        if stage is Stage.RUN and fault is not None:
            wrong = np.ascontiguousarray(fault(np.array(job.outputs[0])))
            job.outputs = [wrong.astype(job.outputs[0].dtype), *job.outputs[1:]]


PATH = str(Path(__file__))
