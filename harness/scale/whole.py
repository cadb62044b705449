"""`--op-by-op-on-fail`: each model first as one program; its ops are run only where that failed.

The records lie in RUN/whole.jsonl, apart from those of the ops: the ledger counts ops. An op is left out where every
model that uses it ran whole on every backend of the run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import export_folder, store
from harness.optest import DEFAULT_ARCH, DEFAULT_BACKEND, RunContext
from harness.records import ManifestHeader, OpRow, OpTest
from harness.stages import FAILED

if TYPE_CHECKING:
    from harness.plan import Plan

FILE = "whole.jsonl"
PATIENCE = 10
"""So many times the time limit of one op is a whole model's."""

SPARED = "its models ran whole"
"""What the record of an op says that was left out."""


def run(sides: Sequence[Plan], header: ManifestHeader, run_dir: Path, report: Callable[[Any], None]) -> None:
    """Runs each model whole on each backend, unless the run folder has its record. Raises InputError as a lane does."""
    there = {(test.model_name, test.backend) for test in records(run_dir)}
    for side in sides:
        orders = replace(side.orders, op_timeout=PATIENCE * side.orders.op_timeout)
        patient = replace(side, orders=orders, header=header)
        rows = [row for row in _rows(header) if (row.uses[0].model, _label(side)) not in there]
        if not rows:
            continue
        lane = patient.lane(side.writer("whole"))
        try:
            for row in rows:
                model = row.uses[0].model
                report({"event": "stage", "model": model, "stage": "whole", "done": 0, "total": 1})
                test = lane.run(row).model_copy(update={"repro": _repro(model, orders.context)})
                with (run_dir / FILE).open("a", encoding="utf-8") as file:
                    file.write(test.model_dump_json() + "\n")
                report({"event": "stage", "model": model, "stage": "whole", "done": 1, "total": 1})
        finally:
            lane.close()


def _label(side: Plan) -> str:
    from harness.optest import backend_label

    return backend_label(side.orders.context.backend)


def _rows(header: ManifestHeader) -> Iterable[OpRow]:
    """The models as rows, where their exports have one."""
    for folder in header.export_dirs:
        path = Path(folder) / export_folder.WHOLE
        if path.is_file():
            yield OpRow.model_validate_json(path.read_text(encoding="utf-8"))


def _repro(model: str, context: RunContext) -> str:
    """One command line that runs the model whole again."""
    words = ["pytest", "--model", model, "--op-by-op-on-fail"]
    for flag, value, default in (
        ("--backend", context.backend, DEFAULT_BACKEND), ("--arch", context.arch, DEFAULT_ARCH),
        ("--data-format", context.data_format, None), ("--math-fidelity", context.math_fidelity, None),
        ("--optimization-level", context.optimization_level, 0),
    ):  # fmt: skip
        if value is not None and value != default:
            words += [flag, str(value)]
    return shlex.join(words)


def records(run_dir: Path) -> list[OpTest]:
    """The records of whole models, in the order in which they were made; a torn last line is left out."""
    path = run_dir / FILE
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [OpTest.model_validate(store.upgrade(OpTest, json.loads(line), str(path))) for line in lines]


def ran(tests: Iterable[OpTest]) -> tuple[str, ...]:
    """The models that failed on no backend."""
    failed: dict[str, bool] = {}
    for test in tests:
        failed[test.model_name] = failed.get(test.model_name, False) or test.status in FAILED
    return tuple(model for model, bad in failed.items() if not bad)
