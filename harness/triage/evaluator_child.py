"""The child of `opscope.harness.triage.evaluator`: one answer for each request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.inside import Parent
from opscope.base.stored import checked
from opscope.harness.prepare import golden
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.split import split_module
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.records import OpRow
from opscope.harness.record.signature import shorten


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The files of the goldens of an op, in its export folder, or why there are none."""
    row, export_dir = OpRow.model_validate(request["row"]), Path(request["export_dir"])
    try:
        module = checked(export_dir, row.module or "").read_bytes()
        results = (_by_ops if row.holds else _at_once)(module, row_inputs(row, export_dir))
        names = [f"{row.op_id}-{index}.npy" for index in range(len(row.outputs))]
        for name, result, desc in zip(names, results, row.outputs, strict=True):
            save(export_dir / name, result.astype(numpy_dtype(desc.data_type), copy=False))
    except (golden.GoldenError, OSError, ValueError) as error:
        return {"error": shorten(str(error), 200)}
    return {"golden": names}


def _at_once(module: bytes, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return golden.compile_module(module, widen=True)(inputs)


def _by_ops(module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a piece of several ops, each computed by itself, so that XLA fuses none."""
    split = split_module(module)
    known = dict(zip(split.program.arguments, inputs, strict=True))
    for node in split.program.nodes:
        if node.value is not None:
            known[node.results[0]] = node.value
        else:
            results = _at_once(split.ops[node.op_id].bytecode, [known[value] for value in node.inputs])
            types = (split.values[value].data_type for value in node.outputs)
            values = (r.astype(numpy_dtype(t), copy=False) for r, t in zip(results, types, strict=True))
            known |= zip(node.outputs, values, strict=True)
    return [known[value] for value in split.program.results]


def serve(parent: Parent) -> None:
    """Answers request after request until the parent closes its end."""
    while (request := parent.receive()) is not None:
        parent.send(answer(request))
