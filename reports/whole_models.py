"""Models as one program: the table `whole_models`, and its rows from the records of a run."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

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
