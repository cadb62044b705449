from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from _pytest.terminal import TerminalReporter

from opscope.harness.record.causes import cause_of_test, short
from opscope.harness.record.records import ResultCheck
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run.items import failure_lines
from opscope.harness.run.session import OpByOp
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES

SECOND = list(NAMES)[1]


def test_a_wrong_result_is_reported_with_its_numbers(tmp_path: Path) -> None:
    good = ResultCheck(passed=True, pcc=1.0, relative_l2=0.0, max_abs=0.0, tolerance="exact")
    bad = ResultCheck(passed=False, pcc=0.5, relative_l2=0.25, max_abs=None, tolerance="matmul-bf16", reason="pcc low")
    test = run_folder.record_of(
        tmp_path,
        SECOND,
        Status.WRONG_RESULT,
        3,
        stage_reached=Stage.RUN,
        failed_stage=Stage.COMPARE,
        error="result 1: pcc low",
        results=(good, bad),
        artifact=f"artifacts/{SECOND}/compare.txt",
    )
    lines = failure_lines(test, "expected to fail at run")
    assert lines[0] == "wrong_result at compare: result 1: pcc low"
    assert lines[1] == f"stablehlo.dot_general [{SECOND}] (2x3xf32)"
    assert "expected to fail at run" in lines
    assert "from layer0 (m.py:0) and 2 more uses" in lines
    assert "result 1: pcc low (pcc 0.5, relative L2 0.25; row matmul-bf16)" in lines
    assert f"signature {test.error_signature}" in lines
    assert f"cause {short(cause_of_test(test))}" in lines
    assert lines[-1] == f"again: pytest --op-by-op --op {SECOND} --run-dir run-1 --backend null"


def test_an_unexpected_pass_says_why_it_fails(tmp_path: Path) -> None:
    why = "unexpected pass: delete the row"
    lines = failure_lines(run_folder.record_of(tmp_path, SECOND, Status.SUCCESS, expected=why), why)
    assert lines[0] == why
    assert lines.count(why) == 1


def test_a_crash_names_its_kind(tmp_path: Path) -> None:
    test = run_folder.record_of(tmp_path, SECOND, Status.CRASHED, failed_stage=Stage.RUN, crash_kind="signal SIGSEGV")
    assert failure_lines(test)[0] == "crashed at run: signal SIGSEGV"


def test_reports_that_wrote_nothing_are_dropped_before_failures_are_shown(pytestconfig: pytest.Config) -> None:
    reporter = TerminalReporter(pytestconfig)
    silent, loud = (
        pytest.TestReport("m::op", ("", None, "op"), {}, "passed", None, "teardown", sections)
        for sections in ([], [("Captured stdout teardown", "text")])
    )
    reporter.stats[""] = [silent, loud, silent]
    manager = pytest.PytestPluginManager()
    manager.register(reporter, "terminalreporter")
    run = object.__new__(OpByOp)
    run.config = cast("pytest.Config", SimpleNamespace(pluginmanager=manager))
    run._drop_silent_reports()
    assert reporter.stats[""] == [loud]
