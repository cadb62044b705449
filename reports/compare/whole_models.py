"""Models as one program: the table `whole_models`, and its rows from the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.statuses import NOT_ATTEMPTED
from opscope.harness.record import isolation
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED
from opscope.harness.record.store import StoredRun, whole_models
from opscope.reports.compare.owned import Owned
from opscope.reports.database.rows import Published, Row, compile_seconds, series_by_backend
from opscope.reports.database.schema import METADATA, RUNS, text
from opscope.reports.records.columns import plain

OF_THE_TEST = (
    "op_id",
    "status",
    "stage_reached",
    "failed_stage",
    "error_message",
    "error_signature",
    "expected",
    "pcc",
    "ran_on",
    "cycles",
    "intermediates",
)
"""Fields that are taken from the record as they are."""


def _figure(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=True)


def _optional_text(name: str) -> sa.Column[str]:
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
    _optional_text("failed_stage"),
    _optional_text("error_message"),
    _optional_text("error_signature"),
    text("expected"),
    _figure("pcc"),
    _figure("relative_l2"),
    text("ran_on"),
    sa.Column("cycles", sa.BigInteger(), nullable=True),
    sa.Column("seconds", sa.Double(), nullable=False),
    sa.Column("compile_seconds", sa.Double(), nullable=False),
    sa.Column("intermediates", sa.BigInteger(), nullable=True),
    _optional_text("jump_path"),
    _optional_text("jump_op_id"),
    _optional_text("jump_op_name"),
    _optional_text("jump_location"),
    _figure("jump_pcc_before"),
    _figure("jump_pcc"),
    _figure("jump_error_before"),
    _figure("jump_error"),
    sa.Column("jump_confirmed", sa.Boolean(), nullable=True),
)
"""One row per run, model and backend: how far the model came as one program, how far its outputs are from their
goldens (the worst of them), how many values on the way were compared, and the first op at which the error jumps."""

JUMP = {
    "jump_path": "path",
    "jump_op_id": "op_id",
    "jump_op_name": "op_name",
    "jump_location": "location",
    "jump_pcc_before": "pcc_before",
    "jump_pcc": "pcc",
    "jump_error_before": "error_before",
    "jump_error": "error",
    "jump_confirmed": "confirmed",
}
"""Column -> field of Jump."""


def whole_model_rows(published: Published, run: Row) -> Iterator[Row]:
    """The rows of `whole_models`."""
    series = series_by_backend(run["backend"], run["arch"], run["options"])
    for test in published.whole:
        keys = {"run_id": run["run_id"], "night_id": run["night_id"], "series": series.get(test.backend, run["series"])}
        yield plain({**keys, **_row(test)})


def _row(test: OpTest) -> Row:
    """What a record tells of its model, as the columns have it."""
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


# --- what a page shows


def models_section(run: StoredRun, run_dir: Path | None, owned: Owned) -> dict[str, Any]:
    """What report.html shows of models as one program, and the ops whose verdict changes when they run alone."""
    if run_dir is None:
        return {"whole": [], "isolation": []}
    tests = whole_models(run_dir, run.tests)
    return {
        "whole": _listed([_row(test) for test in tests], owned),
        "isolation": isolation.lines(isolation.of_run(run_dir, tests, run.tests)),
    }


def night_section(
    connection: sa.Connection, night_id: str, names: Mapping[str, str], owned: Owned
) -> list[dict[str, Any]]:
    """The same of a night, by the verdicts that count. `names`: series -> what a page calls it, empty where it is the
    only one."""
    started = sa.select(WHOLE_MODELS, RUNS.c.started).join(RUNS, RUNS.c.run_id == WHOLE_MODELS.c.run_id)
    rows = connection.execute(started.where(WHOLE_MODELS.c.night_id == night_id)).mappings()
    # As of an op: the newest verdict, one that was attempted before one that was not.
    newest = sorted(rows, key=lambda row: (row["status"] not in NOT_ATTEMPTED, row["started"], row["run_id"]))
    counting = {(row["series"], row["model"]): row for row in newest if row["series"] in names}
    return _listed(
        [{**row, "backend": names[series] or row["backend"]} for (series, _), row in sorted(counting.items())], owned
    )


def _listed(rows: Iterable[Row], owned: Owned) -> list[dict[str, Any]]:
    shown = [_shown(row, owned.owner_of_model(row) if row["status"] in FAILED else "") for row in rows]
    return [row for row in shown if owned.lists(row["owner"])]


def _shown(row: Row, owner: str) -> dict[str, Any]:
    where = ""
    if row["jump_op_id"]:
        where = f"{row['jump_op_name']} [{row['jump_op_id']}] {row['jump_path']} {row['jump_location']}"
        if row["jump_pcc"] is not None and row["jump_pcc_before"] is not None:
            where += f": PCC {row['jump_pcc_before']:.6f} before, {row['jump_pcc']:.6f} after"
    return plain(
        {
            "model": row["model"],
            "backend": row["backend"],
            "status": str(row["status"]),
            "jump": where,
            "error": row["error_message"] or "",
            "pcc": "" if row["pcc"] is None else f"{row['pcc']:.7f}",
            "l2": "" if row["relative_l2"] is None else f"{row['relative_l2']:.2g}",
            "ran_on": row["ran_on"],
            "compared": "" if row["intermediates"] is None else f"{row['intermediates']:,}",
            "owner": owner,
        }
    )
