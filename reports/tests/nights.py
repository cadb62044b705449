"""Small runs made to measure: each op is one line that says how it ended, for tests that compare runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from opscope.base.statuses import PASSED
from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import ManifestHeader, OpRow, Origin, RunRecord, StageTime, TensorDesc, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import FAILED, Stage, Status
from opscope.harness.record.store import Journal, write_manifest, write_run

START = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)


def op_id(name: str) -> str:
    """The id of the op of that name."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Op:
    """How one op ended in one run: a status, `passed` or `unsplittable`."""

    status: str = "success"
    uses: Mapping[str, int] = field(default_factory=lambda: {"m": 1})
    failed: Stage | None = None
    error: str = "it broke"
    pcc: float | None = None
    cycles: int | None = None
    compile_ms: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)


def night(folder: Path, number: int, ops: Mapping[str, Op], models: tuple[str, ...] = (), **record: Any) -> Path:
    """Writes the run of one night and returns its folder; `unsplittable` is a status like any other. Ops `add#1` and
    `add#2` are two of one name."""
    run_id = f"night{number:02}"
    run_dir = folder / run_id
    context = RunContext(
        run_id,
        str(run_dir),
        record.get("backend", "reference").partition(",")[0],
        options=ResultOptions(arch=record.get("arch", "n150")),
        card_type=record.pop("card_type", "sim-n150"),
    )
    started = START + timedelta(days=number)
    tensor = TensorDesc(shape=(8, 8), data_type="f32")
    rows, tests = [], []
    for name, op in ops.items():
        uses = tuple(
            Use(model=model, path=f"main/{name}.{place}") for model, count in op.uses.items() for place in range(count)
        )
        broken = op.error if op.status == "unsplittable" else ""
        row = OpRow(
            op_id=op_id(name),
            op_name=f"stablehlo.{name.partition('#')[0]}",
            module=None if broken else "m.mlirbc",
            inputs=(tensor,),
            outputs=(tensor,),
            uses=uses,
            unsplittable=broken,
        )
        rows.append(row)
        if not broken:
            tests.append(_test(row, op, context, started))
    all_models = models or tuple(sorted({use.model for row in rows for use in row.uses}))
    header = ManifestHeader(
        models=all_models,
        export_dirs=("/nowhere",) * len(all_models),
        structural=dict.fromkeys(all_models, 0),
        module_ops={model: sum(use.model == model for row in rows for use in row.uses) for model in all_models},
        failed=record.pop("failed", ()),
        imports=record.pop("imports", ()),
    )
    revision = f"{number:02}" * 20
    origin = {
        "revision": revision,
        "backend_revision": revision,
        "host": "laptop",
        "python": "3.11",
        "versions": {"jaxlib": "0.10.2"},
        "options": {"dtype": "float32", "seed": 0},
    }
    origin |= record.pop("origin", {})
    values: dict[str, Any] = {
        "run_id": run_id,
        "models": all_models,
        "backend": "reference",
        "arch": "n150",
        "started": started,
        "ended": started + timedelta(minutes=5),
        "outcome": "complete",
        "origin": Origin.model_validate(origin),
    } | record
    write_run(run_dir, RunRecord.model_validate(values))
    write_manifest(run_dir, header, rows)
    with Journal(run_dir, "main") as journal:
        for test in tests:
            journal.append(test)
    return run_dir


def _test(row: OpRow, op: Op, context: RunContext, started: datetime) -> Any:
    passed = op.status == PASSED
    status = Status.STOPPED if passed else Status(op.status)
    right = status is Status.SUCCESS
    reached = {Status.SUCCESS: Stage.COMPARE, Status.STOPPED: Stage.RUN}.get(status, Stage.SPLIT)
    fields = {
        "pcc": op.pcc,
        "cycles": op.cycles,
        "ran_on": "simulator" if right else "none",
        "stages": (
            StageTime(stage=Stage.STABLEHLO_TO_TTIR, seconds=op.compile_ms / 1000),
            StageTime(stage=Stage.RUN, seconds=9.0),
        )
        if right
        else (),
    } | dict(op.more)
    return build_test(
        row,
        context,
        status=status,
        stage_reached=fields.pop("stage_reached", Stage.TTNN_TO_FLATBUFFER if passed else reached),
        started=started,
        ended=started + timedelta(seconds=1),
        error=op.error if status in FAILED | {Status.GOLDEN_IN_DOUBT} else None,
        failed_stage=(op.failed or Stage.STABLEHLO_TO_TTIR) if status in FAILED else None,
        **fields,
    )
