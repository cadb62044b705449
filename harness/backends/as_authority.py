"""A backend as a second authority on a golden: IREE, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.harness.backends import registry
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.authorities.interpreted import NoAnswerError
from opscope.harness.record.records import OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

BACKEND = "iree"


def computed(row: OpRow, module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op, narrow floats in float32 as in goldens. Raises NoAnswerError if the backend refuses it."""
    backend = registry.load(BACKEND)
    wide = mlir.to_bytecode(golden.widened(mlir.load(module)))
    job = Job(row.op_id, wide, [], ResultOptions(), row.outputs)
    try:
        for stage in backend.stages:
            job.inputs = [np.array(array, copy=True) for array in inputs] if stage is Stage.RUN else []
            backend.climb(stage, job)
    except (StageError, Declined) as error:
        raise NoAnswerError(str(error).partition("\n")[0]) from error
    return job.outputs
