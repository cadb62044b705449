"""What `--dump-tensors` keeps of an op: its inputs, the device's results and their goldens.

    RUN/artifacts/<op id>/tensors-<backend>/    input-0.npy, result-0.npy, golden-0.npy, index.json

The index has the form of `opscope simulate --dump` (simulator/dumping.py), so that `opscope diff-tensors` compares the
results with the goldens. A dump never changes a verdict: what cannot be stored is missing, and the index says so.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from opscope.harness.backends.base import Job
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.record import artifacts
from opscope.harness.record.element_types import NUMPY_NAMES, save, size_text
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow

MOST_BYTES = 256 << 20
"""Size of a tensor above which it is not stored."""
_MLIR_NAMES = {numpy_name: name for name, numpy_name in reversed(NUMPY_NAMES.items()) if name != "tf32"}


def dump(row: OpRow, job: Job, context: RunContext, export_dir: Path) -> str | None:
    """Writes an op's tensors. Returns the place of the index in the run folder, None if the disk refuses it."""
    folder = f"tensors-{backend_label(context.backend)}"

    def kept(name: str, array: np.ndarray) -> dict[str, Any]:
        entry = {"file": name, "shape": list(array.shape), "element_type": _MLIR_NAMES.get(array.dtype.name, "")}
        if array.nbytes > MOST_BYTES:
            return {**entry, "file": None, "note": f"not stored: {size_text(array.nbytes)}"}
        buffer = io.BytesIO()
        save(buffer, array)
        stored = artifacts.write(context.run_dir, row.op_id, f"{folder}/{name}", buffer.getvalue())
        return entry if stored is not None else {**entry, "file": None, "note": "the disk refused it"}

    inputs = [kept(f"input-{n}.npy", array) for n, array in enumerate(row_inputs(row, export_dir))]
    results = [kept(f"result-{n}.npy", array) for n, array in enumerate(job.outputs)]
    for number, array in enumerate(row_golden(row, export_dir)):
        if number < len(results):
            golden = kept(f"golden-{number}.npy", array)
            results[number] |= {"golden": golden["file"], "golden_type": golden["element_type"]}
    location = row.uses[0].location if row.uses else ""
    operation = {"number": 0, "kernel": row.op_name, "location": location, "results": results}
    index = {"op": row.op_id, "backend": backend_label(context.backend), "inputs": inputs, "operations": [operation]}
    return artifacts.write(context.run_dir, row.op_id, f"{folder}/index.json", json.dumps(index, indent=1) + "\n")
