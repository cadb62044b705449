"""Models as one program: the table `whole_models`, and its rows from the records of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harness import isolation
from harness.records import OpTest
from harness.store import StoredRun, whole_models
from reports.columns import plain
from reports.rows import Published, Row, compile_seconds, series_by_backend
from reports.schema import METADATA, text

OF_THE_TEST = (
    "op_id", "status", "stage_reached", "failed_stage", "error_message", "error_signature", "expected", "pcc",
    "ran_on", "cycles", "intermediates",
)  # fmt: skip
"""Fields that are told as the record has them."""


def _figure(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=True)


def _may(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=True)


WHOLE_MODELS = sa.Table(
    "whole_models",
    METADATA,
    text("run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    text("model", key=True),
    text("backend", key=True),
    text("night_id"),
    text("series"),
    text("op_id"),
    text("status"),
    text("stage_reached"),
    _may("failed_stage"),
    _may("error_message"),
    _may("error_signature"),
    text("expected"),
    _figure("pcc"),
    _figure("relative_l2"),
    text("ran_on"),
    sa.Column("cycles", sa.BigInteger(), nullable=True),
    sa.Column("seconds", sa.Double(), nullable=False),
    sa.Column("compile_seconds", sa.Double(), nullable=False),
    sa.Column("intermediates", sa.BigInteger(), nullable=True),
    _may("jump_path"),
    _may("jump_op_id"),
    _may("jump_op_name"),
    _may("jump_location"),
    _figure("jump_pcc_before"),
    _figure("jump_pcc"),
    _figure("jump_error_before"),
    _figure("jump_error"),
    sa.Column("jump_confirmed", sa.Boolean(), nullable=True),
)
"""One row per run, model and backend: how far the model came as one program, how far its outputs are from their
goldens (the worst of them), how many values on the way were compared, and the first op at which the error jumps."""

JUMP = {
    "jump_path": "path", "jump_op_id": "op_id", "jump_op_name": "op_name", "jump_location": "location",
    "jump_pcc_before": "pcc_before", "jump_pcc": "pcc", "jump_error_before": "error_before", "jump_error": "error",
    "jump_confirmed": "confirmed",
}  # fmt: skip
"""Column -> field of Jump."""


def whole_model_rows(found: Published, run: Row) -> Iterator[Row]:
    """The rows of `whole_models`."""
    series = series_by_backend(run["backend"], run["arch"], run["options"])
    for test in found.whole:
        errors = [check.relative_l2 for check in test.results if check.relative_l2 is not None]
        yield plain(
            {
                "run_id": run["run_id"],
                "model": test.model_name,
                "backend": test.backend,
                "night_id": run["night_id"],
                "series": series.get(test.backend, run["series"]),
                **{name: getattr(test, name) for name in OF_THE_TEST},
                "relative_l2": max(errors, default=None),
                "seconds": sum(stage.seconds for stage in test.stages),
                "compile_seconds": compile_seconds(test),
                **{name: getattr(test.jump, field) if test.jump else None for name, field in JUMP.items()},
            }
        )


def models_section(run: StoredRun, run_dir: Path | None) -> dict[str, Any]:
    """What report.html shows of models as one program, and of ops that alone are told otherwise; nothing where none
    is."""
    if run_dir is None:
        return {"whole": [], "isolation": []}
    tests = whole_models(run_dir, run.tests)
    return {
        "whole": [_shown(test) for test in tests],
        "isolation": isolation.lines(isolation.of_run(run_dir, tests, run.tests)),
    }


def _shown(test: OpTest) -> dict[str, Any]:
    errors = [check.relative_l2 for check in test.results if check.relative_l2 is not None]
    jump = test.jump
    where = "" if jump is None else f"{jump.op_name} [{jump.op_id}] {jump.path} {jump.location}"
    if jump is not None and jump.pcc is not None and jump.pcc_before is not None:
        where += f": PCC {jump.pcc_before:.6f} before, {jump.pcc:.6f} after"
    return plain(
        {
            "model": test.model_name, "backend": test.backend, "status": test.status.value, "jump": where,
            "error": test.error_message or "", "pcc": "" if test.pcc is None else f"{test.pcc:.7f}",
            "l2": f"{max(errors):.2g}" if errors else "", "ran_on": test.ran_on,
            "compared": "" if test.intermediates is None else f"{test.intermediates:,}",
        }
    )  # fmt: skip
