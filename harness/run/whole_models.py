"""`--op-by-op-on-fail`: runs each model as one program first, and its ops only if that fails.

The records are in RUN/whole.jsonl, apart from those of the ops, because the ledger counts only ops. An op is left out
if every model that uses it ran whole on every backend of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.harness.climb import result_cache
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record import store
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.record.records import ManifestHeader, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import FAILED
from opscope.harness.record.workflows import FULL, workflow
from opscope.harness.run.plan import RunPlan, lane_of
from opscope.harness.run.process_plan import Orders
from opscope.models.registry import TRAINING

if TYPE_CHECKING:
    from opscope.harness.lanes.flight import Ready

SPARED = "its models ran whole"
"""Reason in the record of an op that was left out."""


def run(
    sides: Sequence[RunPlan],
    ready: Sequence[Ready],
    header: ManifestHeader,
    report: Callable[[Any], None],
    options: ResultOptions,
    *,
    cached: bool,
    in_time: Callable[[], bool],
) -> None:
    """Runs each model whole on each backend, unless the run folder already has its record; none begins that is not
    `in_time`. Raises a lane's InputError.

    `options` are those of whole models, which may use the host even if their single ops may not. `ready` is each
    backend's report. With `cached`, kept verdicts are used.
    """
    run_dir = sides[0].run_dir
    recorded = {(test.model_name, test.backend) for test in store.whole_tests(run_dir)}
    for side, backend_ready in zip(sides, ready, strict=True):
        orders = replace(
            side.orders,
            op_timeout=workflow(FULL).patience * side.orders.op_timeout,
            context=replace(side.orders.context, options=options),
        )
        patient = replace(side, orders=orders, header=header)
        rows = whole_rows(header.export_dirs)
        rows = [row for row in rows if (row.uses[0].model, _label(side)) not in recorded]
        if not rows:
            continue
        cache = result_cache.ResultCache(
            orders.caches, orders.context, backend_ready if cached else None, patient.folders
        )
        lane = lane_of(orders, patient.folders, side.writer("whole"))
        try:
            for row in rows:
                model = row.uses[0].model
                test = cache.find(row)
                if test is None and not in_time():
                    continue
                report({"event": "stage", "model": model, "stage": "whole", "done": 0, "total": 1})
                if test is None:
                    test = lane.run(row)
                    cache.keep(row, test, lane.last_ready or backend_ready)
                test = test.model_copy(update={"repro": _repro(model, orders)})
                with (run_dir / store.WHOLE_FILE).open("ab") as file:
                    file.write(store.line_of(test))
                report({"event": "stage", "model": model, "stage": "whole", "done": 1, "total": 1})
        finally:
            lane.close()


def _label(side: RunPlan) -> str:
    from opscope.harness.record.optest import backend_label

    return backend_label(side.orders.context.backend)


def _repro(model: str, orders: Orders) -> str:
    """A command line that runs the model whole again, from the folder of this run or another checkout of it."""
    context = orders.context
    # Without the suffix of training steps, which `--training` adds to the name again.
    name = model.removesuffix(TRAINING) if context.options.training else model
    asked = (orders.preparation or {}).get("models") or ()
    words = ["pytest", "--model", next((word for word in asked if Path(word).stem == name), name), "--workflow", FULL]
    if context.backend != DEFAULT_BACKEND:
        words += ["--backend", context.backend]
    words += context.options.flags(usual=ResultOptions(workflow=FULL))
    return shlex.join(word.replace(f"{Path.cwd()}/", "") for word in words)


def ran(tests: Iterable[OpTest]) -> tuple[str, ...]:
    """The models that failed on no backend."""
    failed: dict[str, bool] = {}
    for test in tests:
        failed[test.model_name] = failed.get(test.model_name, False) or test.status in FAILED
    return tuple(model for model, bad in failed.items() if not bad)
