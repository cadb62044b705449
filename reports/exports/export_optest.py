"""Op tests as tenstorrent/tt-github-actions' `collect_data` reads them from JSON reports.

Its reader expects a file whose name contains `op_by_op` and ends in the job's number. The file holds one object with
`tests`, each with `user_properties`, a list of maps; each op test is a map in that list, whose only key is
`OpTest model for: <name>`. Every value is a text (true is the text `True`), and tensors are the text of a list of
`TensorDesc(...)`. One unreadable record may cost the whole file, so values that the reader cannot parse are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from opscope.base.statuses import NOT_ATTEMPTED
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest, TensorDesc
from opscope.harness.record.stages import Status
from opscope.reports.database.rows import is_failure
from opscope.reports.exports.exported import Exported
from opscope.reports.records.columns import plain

UNTRIED = NOT_ATTEMPTED
"""Endings that are exported as skipped, because these ops have no verdict."""

UNREADABLE = re.compile(r"[)'\"\n\r]")
"""Characters that would cut a value short, because the reader looks for the next quote or parenthesis."""


AS_THEY_ARE = (
    *("test_case_name", "op_kind", "op_name", "framework_op_name", "op_id", "status", "stage_reached", "failed_stage"),
    *("card_type", "backend", "pcc", "z_max"),
)
OR_NONE = ("filepath", "frontend", "z_place", "question", "hypothesis", "second_authority", "expected", "repro")
"""Fields that are exported as they are; texts of which are None where they are empty."""


def file_name(job_id: int) -> str:
    """The report's name, from which the reader takes the job's number."""
    return f"op_by_op_report_{job_id}.json"


def job_of(run: Exported, job_id: int | None) -> int:
    """Returns `job_id` if given, else the job's number in the records. Raises InputError if there is neither."""
    number = job_id if job_id is not None else next((t.github_job_id for t in run.tests if t.github_job_id), None)
    if number is None:
        raise InputError("--job-id", "the number of the CI job that made the run", "none", "--job-id 123456")
    return number


def render(run: Exported, job_id: int) -> str:
    """Renders the report as JSON, with one record per op and model, so that no model loses its ops."""
    entries = [
        {f"OpTest model for: {_text(test.op_name)}[{test.op_id}]": record(test, model, run, job_id)}
        for test in run.everything
        for model in test.models or (test.model_name,)
    ]
    right = sum(test.right for test in run.everything)
    failed = sum(not test.right and test.status not in UNTRIED for test in run.everything)
    red = any(map(is_failure, run.everything))
    properties: list[dict[str, Any]] = [
        {"total_ops_before_filtering": str(len(run.everything))},
        {"total_ops_after_filtering": str(len(run.everything))},
        *entries,
        {"successful_operations": str(right)},
        {"failed_operations": str(failed)},
    ]
    ended = max((test.test_end_ts for test in run.tests), default=run.started)
    report = {
        "created": ended.timestamp(),
        "duration": max(0.0, (ended - run.started).total_seconds()),
        "exitcode": int(red),
        "environment": {},
        "summary": {"total": 1, "collected": 1, ("failed" if red else "passed"): 1},
        "tests": [
            {
                "nodeid": f"opscope::{_text(run.run_id)}",
                "outcome": "failed" if red else "passed",
                "user_properties": properties,
            }
        ],
    }
    return json.dumps(report, indent=1, allow_nan=False) + "\n"


def record(test: OpTest, model: str, run: Exported, job_id: int) -> dict[str, str]:
    """The record of one op test in one model; fields that the reader does not know are kept as text too."""
    fields: dict[str, Any] = {
        "github_job_id": job_id,
        "full_test_name": f"{model}::{test.test_case_name}",
        "test_start_ts": _time(test.test_start_ts),
        "test_end_ts": _time(test.test_end_ts),
        "config": plain(test.config) or None,
        "op_params": plain(test.op_params) or None,
        "success": test.right,
        "skipped": test.status in UNTRIED,
        "error_message": _message(test),
        "model_name": model,
        "inputs": tensors(test.inputs),
        "outputs": tensors(test.outputs),
        **{name: getattr(test, name) for name in AS_THEY_ARE},
        "git_sha": run.revision or None,
        **{name: getattr(test, name) or None for name in OR_NONE},
    }
    return {name: _text(value) for name, value in fields.items()}


def _message(test: OpTest) -> str | None:
    """Why it failed, or why there is no verdict."""
    if test.status in UNTRIED:
        doubt = f": {test.error_message}" if test.status == Status.GOLDEN_IN_DOUBT else ""
        return f"{test.status.replace('_', ' ')} after {test.stage_reached}{doubt}"
    if test.right:
        return test.error_message if test.success else None
    prefix = f"known ({test.expected}): " if test.expected else ""
    message = test.error_message or test.crash_kind
    return f"{prefix}{message or test.status}"


def tensors(descs: Iterable[TensorDesc]) -> str:
    """Formats tensors so that the reader's pattern matches them."""
    return f"[{', '.join(map(tensor, descs))}]"


def tensor(desc: TensorDesc) -> str:
    """Formats one tensor; properties that the compiler did not choose are None."""
    grid = None if desc.grid_shape is None else list(desc.grid_shape)
    return (
        f"TensorDesc(shape={list(desc.shape)}, data_type={_word(desc.data_type)}, "
        f"buffer_type={_word(desc.buffer_type)}, layout={_word(desc.layout)}, grid_shape={grid})"
    )


def _word(value: str | None) -> str:
    """Returns the word in quotes, or None; a word that the reader's pattern would cut short becomes `unknown`."""
    if value is None:
        return "None"
    return "'unknown'" if UNREADABLE.search(value) else f"'{_text(value)}'"


def _time(value: datetime) -> str:
    """ISO 8601 with a numeric zone, which Python 3.10 reads too."""
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _text(value: Any) -> str:
    """A value as text that is valid UTF-8, without NUL."""
    return plain(str(value)).encode("utf-8", "replace").decode("utf-8")
