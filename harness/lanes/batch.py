"""Runs rows of a passing op's batch alone: are their bits those that they have in the whole batch?

Kernels that add in another order for another size give a row other bits when fewer rows run beside it: the same request
to a model then has other answers in a fuller batch. Such a record keeps its status; `stability` is BATCH_DEPENDENT,
`outcomes` says which rows of which results differ, and each such result has the flag `by_batch`.

The batch is the first dimension of every result, where an operand has it too and each row is computed by itself:
elementwise ops, products, convolutions, and reductions over other dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.damage import Damaged
from opscope.base.op_families import ELTWISE, PRODUCTS, op_family
from opscope.base.stored import checked
from opscope.harness.backends.base import Backend, BackendError, Job
from opscope.harness.lanes.result_digests import of
from opscope.harness.prepare import axes
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, read
from opscope.harness.record.records import OpRow, ResultCheck, TensorDesc
from opscope.harness.record.stages import BATCH_DEPENDENT, Stage, Status

BY_BATCH = "by_batch"
"""Flag of a result whose rows have other bits alone."""
FAMILIES = frozenset({ELTWISE, *PRODUCTS, "reduce"})
"""Ops that compute each row of a batch by itself."""
ROWS = 8
"""The most rows that run alone, from the first to the last."""


def fields(row: OpRow, job: Job, backend: Backend, export_dir: Path, checks: Sequence[ResultCheck]) -> dict[str, Any]:
    """Compiles an op that has passed for a batch of one, runs rows of its batch, and returns what its record says if
    one differs; nothing of an op without a batch. Raises what no run is to blame for: Damaged, BackendError."""
    module = checked(export_dir, row.module or "").read_bytes()
    batch = _for_one(row, module)
    if batch is None:
        return {}
    axis, small, form = batch
    inputs = row_inputs(row, export_dir)
    batches = {form.arguments[n]: d for (kind, n, d), _ in axis.places if kind == "o" and form.arguments[n] >= 0}
    outputs = tuple(
        TensorDesc(shape=shape, data_type=each.data_type) for shape, each in zip(form.results, row.outputs, strict=True)
    )
    alone = Job(f"{row.op_id}-one", small, [], job.options, outputs, row.argument_types)
    differ: dict[int, list[int]] = {}
    try:
        for stage in backend.stages:
            if stage is not Stage.RUN:
                backend.climb(stage, alone)
        compiled = dict(alone.state)
        for number in dict.fromkeys(np.linspace(0, axis.size - 1, min(axis.size, ROWS)).round().astype(int).tolist()):
            alone.state |= compiled
            alone.outputs, alone.inputs_after = [], None
            alone.inputs = [
                np.ascontiguousarray(np.take(array, [number], axis=batches[n])) if n in batches else array.copy()
                for n, array in enumerate(inputs)
            ]
            backend.climb(Stage.RUN, alone)
            for result, (one, whole) in enumerate(zip(alone.outputs, job.outputs, strict=True)):
                if of(one) != of(np.ascontiguousarray(whole[number : number + 1])):
                    differ.setdefault(result, []).append(number)
    except (Damaged, BackendError):
        raise
    except Exception as error:  # noqa: BLE001  the op has passed: this is how a batch of one ends
        end = f"a row alone: {Status.RUN_FAILED}: {type(error).__name__}: {error}"
        return {"stability": BATCH_DEPENDENT, "outcomes": (str(Status.SUCCESS), end)}
    if not differ:
        return {}
    ends = [f"alone: other bits in result {n}, rows {', '.join(map(str, rows))}" for n, rows in sorted(differ.items())]
    flagged = [
        check.model_copy(update={"flags": (*check.flags, BY_BATCH)}) if n in differ else check
        for n, check in enumerate(checks)
    ]
    return {"stability": BATCH_DEPENDENT, "outcomes": (str(Status.SUCCESS), *ends), "results": tuple(flagged)}


def _for_one(row: OpRow, module: bytes) -> tuple[axes.Axis, bytes, Form] | None:
    """The batch of an op, and its module and form for a batch of one; None if it has none."""
    if op_family(row.op_name) not in FAMILIES or not row.outputs:
        return None
    try:
        form = read(module)
        one = tuple((1, *shape[1:]) for shape in form.results)
        if any(not shape or shape[0] < 2 for shape in form.results):
            return None
        for axis in axes.find(module, form):
            rows = all(shape[0] == axis.size for shape in form.results)
            if rows and axis.places[0][0][0] == "o" and all(factor == 1 for _, factor in axis.places):
                small = axes.with_size(module, form, axis, 1)
                if small is not None and small[1].results == one:
                    return axis, *small
    except InvalidVariantError:
        return None
    return None
