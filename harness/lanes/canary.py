"""A known-good op where a result does not repeat: is it the card, the node, or the code of the op?

A product of two matrices of 1 and -1 that has one right answer, a multiple of the identity, whatever the order of its
sums and whatever the format of its numbers: each partial sum is a whole number of at most 8 bits. It runs several
times on the same device, and by NumPy on the same host.
"""

from __future__ import annotations

import platform

import numpy as np

from opscope.base.damage import Damaged
from opscope.harness.backends.base import Backend, BackendError, Job
from opscope.harness.lanes.result_digests import of
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import CARD, CODE, NODE, Stage

SIZE = 256
RUNS = 10

_KIND = f"tensor<{SIZE}x{SIZE}xf32>"
_MODULE = f"""func.func @main(%x: {_KIND}, %y: {_KIND}) -> {_KIND} {{
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({_KIND}, {_KIND}) -> {_KIND}
  return %0 : {_KIND}
}}
"""


def blames(backend: Backend, options: ResultOptions) -> str:
    """What the canary says of this host: `card: 3 of 10 runs of a known-good op are wrong on HOST`; empty where the
    backend refuses it. Raises what no op is to blame for: Damaged, BackendError."""
    signs = _signs()
    answer = SIZE * np.eye(SIZE, dtype=np.float32)
    host = platform.node() or "this host"
    if wrong := sum(not np.array_equal(signs @ signs.T, answer) for _ in range(RUNS)):
        return f"{NODE}: {wrong} of {RUNS} products by NumPy are wrong on {host}"
    desc = TensorDesc(shape=answer.shape, data_type="f32")
    job = Job("canary", _MODULE.encode(), [], options, (desc,), ("f32", "f32"))
    found = []
    try:
        for stage in backend.stages:
            if stage is not Stage.RUN:
                backend.climb(stage, job)
        compiled = dict(job.state)
        for _ in range(RUNS):
            job.state |= compiled
            job.inputs, job.inputs_after, job.outputs = [signs.copy(), np.ascontiguousarray(signs.T)], None, []
            try:
                backend.climb(Stage.RUN, job)
                found.append(of(job.outputs[0]))
            except (Damaged, BackendError):
                raise
            except Exception as error:  # noqa: BLE001  this is how a run of it ends
                found.append(type(error).__name__)
    except (Damaged, BackendError):
        raise
    except Exception:  # noqa: BLE001  a backend without such a product
        return ""
    if not job.outputs and len(set(found)) == 1:  # no run of it has ended
        return ""
    bad = sum(digest != of(answer) for digest in found)
    if len(set(found)) > 1:
        blamed = CARD if job.ran_on == "silicon" else CODE
        return f"{blamed}: {bad} of {RUNS} runs of a known-good op are wrong on {host}"
    return f"{CODE}: a known-good op {'is right' if not bad else 'gives the same bits'} {RUNS} times on {host}"


def _signs() -> np.ndarray:
    """Hadamard's matrix: its rows of 1 and -1 are orthogonal."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < SIZE:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix
