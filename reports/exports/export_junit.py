"""Op tests as JUnit XML: one test case per op, xfail for known failures, as pytest writes them.

The properties include those that tenstorrent/tt-github-actions' `collect_data` reads for tests of single ops: `card`
and `git_sha` of the suite; `backend`, `failure_stage`, `input_shapes`, `input_dtypes` and `param_*` of a case.
An op without a golden is an error and no failure: its result was not found wrong, it could not be judged. It has no
`failure_stage`, since `golden` would say that it is wrong.
That reader takes an op as right unless its case has a failure or an error, and knows no expected ones. `for_builder`
writes what it reads as the op's own outcome: an expected failure is a failure, an unexpected pass is none, and an op
without a golden, for which the reader has no status, is skipped.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as Xml

from opscope.base.visible_text import visible
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Stage, Status
from opscope.reports.database.rows import is_failure
from opscope.reports.exports.exported import Exported

ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot represent."""

FAILED_IN = {Stage.RUN: "runtime", Stage.COMPARE: "golden"}
"""Stage -> the value of `failure_stage` that the reader expects; every other stage is `compile`."""

BY_STATUS = {
    Status.RUN_FAILED: "runtime",
    Status.WRONG_RESULT: "golden",
    Status.NO_GOLDEN: "",
}
"""Status -> `failure_stage`, where the status decides it; for a timeout or a crash the stage decides."""


FIELDS = (
    *("backend", "op_name", "frontend", "op_id", "status", "stage_reached", "uses", "pcc", "z_max", "z_place"),
    *("question", "hypothesis", "second_authority", "repro", "expected"),
)
"""Fields of a record that are properties of its case as they are."""


def file_name(run: Exported, job_id: int | None) -> str:
    """The report's name: with a job number, the name from which the reader takes job and kind, else the run's name."""
    return f"{run.run_id}.xml" if job_id is None else f"opscope_builder_report_{job_id}.xml"


def render(run: Exported, for_builder: bool = False) -> str:
    """Renders the report as XML, in pytest's words or, with `for_builder`, in those of the action's reader."""
    tests = run.everything
    cases = [_case(test, for_builder) for test in tests]
    outcomes = ("error", "failure", "skipped")
    counts = {outcome: sum(case.find(outcome) is not None for case in cases) for outcome in outcomes}
    suite = Xml.Element(
        "testsuite",
        name="pytest",
        errors=str(counts["error"]),
        failures=str(counts["failure"]),
        skipped=str(counts["skipped"]),
        tests=str(len(tests)),
        time=f"{sum(_seconds(test) for test in tests):.3f}",
        timestamp=run.started.isoformat(),
        hostname=_legal(run.host),
    )
    card = next((test.card_type for test in run.tests if test.card_type != "none"), "none")
    suite.append(_properties({"card": card, "git_sha": run.revision or "unknown", "run_id": run.run_id}))
    suite.extend(cases)
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(test: OpTest, for_builder: bool) -> Xml.Element:
    case = Xml.Element(
        "testcase",
        classname=_legal(test.model_name or "opscope"),
        name=_legal(f"{test.op_name}[{test.op_id}]"),
        time=f"{_seconds(test):.6f}",
    )
    properties: dict[str, Any] = {
        **{name: getattr(test, name) for name in FIELDS},
        "framework_op_name": test.framework_op_name or test.op_name,
        "input_shapes": [tensor.shape for tensor in test.inputs],
        "input_dtypes": [tensor.data_type for tensor in test.inputs],
        "start_timestamp": test.test_start_ts.isoformat(),
        "models": ",".join(test.models),
        **{f"param_{name}": value for name, value in test.op_params.items()},
    }
    message = test.error_message or test.crash_kind or str(test.status)
    without_verdict = test.status == Status.NO_GOLDEN
    if without_verdict:
        message = f"no golden: {message}"
    if for_builder and test.expected and test.status in FAILED:
        message = f"expected failure ({test.expected}): {message}"
    if test.status in FAILED:
        properties["error_message"] = message
    if stage := _failure_stage(test):
        properties["failure_stage"] = stage
    case.append(_properties(properties))
    if without_verdict and for_builder:
        Xml.SubElement(case, "skipped", type="pytest.skip", message=_legal(message))
    elif without_verdict and is_failure(test):
        Xml.SubElement(case, "error", type=str(test.status), message=_legal(message)).text = _legal(
            f"{message}\n{test.repro}"
        )
    elif test.status in FAILED if for_builder else is_failure(test):
        reason = message if test.status in FAILED else f"passed, though a limitation says {test.expected}"
        Xml.SubElement(case, "failure", message=_legal(reason)).text = _legal(f"{reason}\n{test.repro}")
    elif test.status in FAILED:
        Xml.SubElement(case, "skipped", type="pytest.xfail", message=_legal(test.expected))
    elif not test.right:
        doubt = f"golden in doubt: {message}" if test.status == Status.GOLDEN_IN_DOUBT else str(test.status)
        Xml.SubElement(case, "skipped", type="pytest.skip", message=_legal(doubt))
    return case


def _failure_stage(test: OpTest) -> str:
    """The value of `failure_stage` that the reader expects; empty for an op without a verdict."""
    if test.right:
        return "success"
    if test.status in BY_STATUS:
        return BY_STATUS[test.status]
    if test.status not in FAILED:
        return ""
    return FAILED_IN.get(test.failed_stage or test.stage_reached, "compile")


def _seconds(test: OpTest) -> float:
    return sum(stage.seconds for stage in test.stages)


def _properties(values: dict[str, Any]) -> Xml.Element:
    block = Xml.Element("properties")
    for name, value in values.items():
        if value is not None and value != "":
            Xml.SubElement(block, "property", name=_legal(name), value=_legal(str(value)))
    return block


def _legal(text: str) -> str:
    return ILLEGAL.sub("�", visible(text))
