"""Op tests as CSV: the columns of the frame `op_tests`, one line per op; lists are JSON."""

from __future__ import annotations

from collections.abc import Sequence
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
    columns = tuple(COLUMNS["op_tests"])
    return as_csv(columns, (_row(test, run, columns) for test in run.everything))


def table(run: Exported) -> Answer:
    """Builds the table of op tests, one row per op, and one for each verdict of a model."""
    columns = tuple(COLUMNS["op_tests"])
    return Answer(columns, tuple(_row(test, run, columns) for test in run.everything))


def _row(test: OpTest, run: Exported, columns: Sequence[str]) -> tuple[Any, ...]:
    made = {
        "started": run.started,
        "types": signature(test.inputs, test.outputs),
        "is_failure": is_failure(test),
        "seconds": sum(stage.seconds for stage in test.stages),
        "models": list(test.models),
    }
    return tuple(made[name] if name in made else getattr(test, name) for name in columns)
