"""Op tests as CSV: the columns of the frame `op_tests`, one line per op; lists are JSON."""

from __future__ import annotations

from typing import Any

from opscope.harness.record.records import OpTest
from opscope.reports.database.ask import Answer, as_csv
from opscope.reports.database.rows import is_failure, signature
from opscope.reports.exports.exported import Exported
from opscope.reports.exports.frames import COLUMNS


def file_name(run: Exported) -> str:
    """The name of the CSV file, after the run."""
    return f"{run.run_id}.csv"


def render(run: Exported) -> str:
    """Renders the table as CSV text."""
    return as_csv(table(run))


def table(run: Exported) -> Answer:
    """Builds the table of op tests, one row per op, and one for each verdict of a model."""
    columns = tuple(COLUMNS["op_tests"])
    rows = [_row(test, run) for test in run.everything]
    return Answer(columns, tuple(tuple(row[name] for name in columns) for row in rows))


def _row(test: OpTest, run: Exported) -> dict[str, Any]:
    return {
        **dict(test),
        "status": test.status,
        "started": run.started,
        "types": signature(test.inputs, test.outputs),
        "is_failure": is_failure(test),
        "seconds": sum(stage.seconds for stage in test.stages),
        "models": list(test.models),
    }
