"""The child of `opscope.harness.triage.evaluator`: one request a line on stdin, one answer a line on stdout."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from opscope.harness.lanes.worker import die_with_parent
from opscope.harness.prepare import golden
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.records import OpRow


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The places of the goldens of an op, or why there are none."""
    row, folder = OpRow.model_validate(request["row"]), Path(request["folder"])
    export_dir = Path(request["export_dir"])
    try:
        module = (export_dir / (row.module or "")).read_bytes()
        results = golden.compile_module(module, widen=True)(row_inputs(row, export_dir))
        paths = [folder / f"{row.op_id}-{index}.npy" for index in range(len(row.outputs))]
        for path, result, desc in zip(paths, results, row.outputs, strict=True):
            save(path, result.astype(numpy_dtype(desc.data_type), copy=False))
    except (golden.GoldenError, OSError, ValueError) as error:
        return {"error": " ".join(str(error).split())[:200]}
    return {"golden": [str(path) for path in paths]}


def main() -> None:
    """Answers until stdin ends. What libraries print goes nowhere."""
    die_with_parent(int(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
