"""Models as one program: the table `whole_models`, its rows from the records of a run, and those that count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from opscope.harness.record.causes import cause_of
from opscope.harness.record.records import WHOLE_MODEL, OpTest
from opscope.reports.database.rows import Published, Row, compile_seconds, series_by_backend
from opscope.reports.database.schema import METADATA
from opscope.reports.records.columns import COUNT, FLAG, REAL, TEXT, of, plain

OF_THE_TEST = (
    *("op_id", "status", "stage_reached", "failed_stage", "error_message", "error_signature", "expected"),
    *("pcc", "ran_on", "cycles", "intermediates"),
)
"""Fields that are taken from the record as they are."""


WHOLE_MODELS = sa.Table(
    "whole_models",
    METADATA,
    *of(TEXT, "run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    *of(TEXT, "model backend", key=True),
    *of(TEXT, "night_id series op_id status stage_reached"),
    *of(TEXT, "failed_stage error_message error_signature", null=True),
    *of(TEXT, "expected"),
    *of(REAL, "pcc relative_l2", null=True),
    *of(TEXT, "ran_on"),
    *of(COUNT, "cycles", null=True),
    *of(REAL, "seconds compile_seconds"),
    *of(COUNT, "intermediates", null=True),
    *of(TEXT, "jump_path jump_op_id jump_op_name jump_location", null=True),
    *of(REAL, "jump_pcc_before jump_pcc jump_error_before jump_error", null=True),
    *of(FLAG, "jump_confirmed", null=True),
)
"""One row per run, model and backend: how far the model came as one program, how far its outputs are from their
goldens (the worst of them), how many values on the way were compared, and the first op at which the error jumps."""

JUMP = {
    f"jump_{name}": name
    for name in ("path", "op_id", "op_name", "location", "pcc_before", "pcc", "error_before", "error", "confirmed")
}
"""Column -> field of Jump."""


def whole_model_rows(published: Published, run: Row) -> Iterator[Row]:
    """The rows of `whole_models`."""
    series = series_by_backend(run["backend"], run["arch"], run["options"])
    for test in published.whole:
        keys = {"run_id": run["run_id"], "night_id": run["night_id"], "series": series.get(test.backend, run["series"])}
        yield plain({**keys, **columns_of(test)})


def columns_of(test: OpTest) -> Row:
    """What a record says of its model, as the columns have it."""
    errors = [check.relative_l2 for check in test.results if check.relative_l2 is not None]
    return {
        "model": test.model_name,
        "backend": test.backend,
        **{name: getattr(test, name) for name in OF_THE_TEST},
        "relative_l2": max(errors, default=None),
        "seconds": sum(stage.seconds for stage in test.stages),
        "compile_seconds": compile_seconds(test),
        **{name: getattr(test.jump, field) if test.jump else None for name, field in JUMP.items()},
    }


def counting(connection: sa.Connection, night_id: str, series: Iterable[str]) -> list[Row]:
    """The rows of a night that count (view `night_programs`), by series and model."""
    return [dict(row) for row in connection.execute(_COUNTING, {"night": night_id, "names": list(series)}).mappings()]


def _counting() -> sa.Select[*tuple[Any, ...]]:
    keys = ("run_id", "model", "backend")
    programs = sa.table("night_programs", *(sa.column(name) for name in ("night_id", *keys)))
    query = sa.select(WHOLE_MODELS).join(
        programs, sa.and_(*(programs.c[name] == WHOLE_MODELS.c[name] for name in keys))
    )
    names = sa.bindparam("names", expanding=True)
    query = query.where(programs.c.night_id == sa.bindparam("night"), WHOLE_MODELS.c.series.in_(names))
    return query.order_by(WHOLE_MODELS.c.series, WHOLE_MODELS.c.model)


_COUNTING = _counting()


def rows_of_run(connection: sa.Connection, run_id: str, backend: str = "") -> list[Row]:
    """The rows of a run, or of one of its backends."""
    query = sa.select(WHOLE_MODELS).where(WHOLE_MODELS.c.run_id == run_id)
    if backend:
        query = query.where(WHOLE_MODELS.c.backend == backend)
    return [
        dict(row) for row in connection.execute(query.order_by(WHOLE_MODELS.c.model, WHOLE_MODELS.c.backend)).mappings()
    ]


def cause_of_program(row: Mapping[Any, Any]) -> str:
    """The cause of a model that went wrong as one program; empty for one that did not."""
    stage = str(row["failed_stage"] or row["stage_reached"])
    return cause_of(row["status"], stage, WHOLE_MODEL, "", row["error_message"] or "")
