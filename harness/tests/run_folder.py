"""A run of three ops in a folder, written through the store: what the tests of pages and plans read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opscope.harness.record import store
from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import (
    VOLATILE,
    ManifestHeader,
    OpRow,
    OpTest,
    Origin,
    RunRecord,
    StageTime,
    TensorDesc,
    Use,
)
from opscope.harness.record.stages import Stage, Status

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NAMES = {
    "aaaa000000000001": "stablehlo.add",
    "bbbb000000000002": "stablehlo.dot_general",
    "bbcc000000000003": "stablehlo.custom_call:Foo",
}


def row(op_id: str, uses: int = 1) -> OpRow:
    """One op of the manifest; the custom call could not be split off."""
    name = NAMES[op_id]
    broken = name.endswith("Foo")
    return OpRow(
        op_id=op_id,
        op_name=name,
        module=None if broken else f"ops/{op_id}.mlirbc",
        inputs=(TensorDesc(shape=(2, 3), data_type="f32"),),
        outputs=(TensorDesc(shape=(2, 3), data_type="f32"),),
        uses=tuple(Use(model="m", path=f"main/{n}", location=f"layer{n} (m.py:{n})") for n in range(uses)),
        unsplittable="its region refers to a symbol" if broken else "",
    )


def context(folder: Path) -> RunContext:
    """What the ops of the run share."""
    return RunContext("run-1", str(folder), backend="null")


def record_of(folder: Path, op_id: str, status: Status, uses: int = 1, **fields: Any) -> OpTest:
    """The record of one op."""
    return build_test(row(op_id, uses), context(folder), status=status, started=START, ended=START, **fields)


def write(folder: Path, *, tests: bool = True) -> Path:
    """The run: `add` (two uses) passed, `dot_general` was refused, the custom call is unsplittable."""
    header = ManifestHeader(models=("m",), export_dirs=("/e",), module_ops={"m": 6}, structural={"m": 2})
    first, second, third = NAMES
    store.write_manifest(folder, header, [row(first, 2), row(second), row(third)])
    origin = Origin(options={"backend": "null", "arch": "e150", "op_timeout": 7.0})
    store.write_run(
        folder, RunRecord(run_id="run-1", models=("m",), backend="null", arch="e150", started=START, origin=origin)
    )
    if tests:
        with store.Journal(folder, "main") as journal:
            times = (StageTime(stage=Stage.COMPILE, seconds=0.5), StageTime(stage=Stage.RUN, seconds=1.5))
            journal.append(record_of(folder, first, Status.SUCCESS, 2, stage_reached=Stage.COMPARE, stages=times))
            journal.append(
                record_of(folder, second, Status.COMPILE_FAILED, failed_stage=Stage.COMPILE, error="no [dots] here")
            )
    return folder


def lasting(folder: Path) -> list[dict[str, object]]:
    """The records of a run, without what may differ between two equal runs."""
    return [test.model_dump(exclude=set(VOLATILE)) for test in store.load_run(folder).tests]
