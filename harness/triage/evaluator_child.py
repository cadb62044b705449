"""The child of `opscope.harness.triage.evaluator`: one answer for each request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.base.stored import checked
from opscope.harness.prepare import golden
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.records import OpRow
from opscope.harness.record.signature import shorten


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The files of the goldens of an op, in its export folder, or why there are none."""
    row, export_dir = OpRow.model_validate(request["row"]), Path(request["export_dir"])
    try:
        module = checked(export_dir, row.module or "").read_bytes()
        results = golden.compile_module(module, widen=True)(row_inputs(row, export_dir))
        names = [f"{row.op_id}-{index}.npy" for index in range(len(row.outputs))]
        for name, result, desc in zip(names, results, row.outputs, strict=True):
            save(export_dir / name, result.astype(numpy_dtype(desc.data_type), copy=False))
    except (golden.GoldenError, OSError, ValueError) as error:
        return {"error": shorten(str(error), 200)}
    return {"golden": names}


def serve(parent: Parent) -> None:
    """Answers request after request until the parent closes its end."""
    while (request := parent.receive()) is not None:
        parent.send(answer(request))
