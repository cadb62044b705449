"""What is stored of diagnostics that are too long or no text, and of times when the clock was set back."""

from __future__ import annotations

from datetime import timedelta

from opscope.harness.record.artifact_text import LIMIT, capped
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Stage, Status

ROW = OpRow(op_id="0" * 16, op_name="stablehlo.add", module=None)


def test_a_long_diagnostic_is_cut_and_says_so():
    assert capped("short") == "short"
    text = capped("x" * (LIMIT + 1))
    assert text.endswith(f"\n[cut here: {LIMIT:,} of {LIMIT + 1:,} characters]\n")
    assert len(text) < LIMIT + 100


def test_an_error_of_megabytes_and_one_with_a_lone_surrogate_are_kept():
    for error, begins in (("no room for 12 " * 2_000_000, "no room for 12 no room"), ("lone \ud800", "lone \\ud800")):
        test = build_test(
            ROW, RunContext("r", "run"), status=Status.RUN_FAILED, failed_stage=Stage.RUN, started=now(), error=error
        )
        assert test.error_message.startswith(begins)
        assert test.error_signature
        assert OpTest.model_validate_json(test.model_dump_json()) == test


def test_no_op_ends_before_it_began():
    begun = now()
    test = build_test(
        ROW, RunContext("r", "run"), status=Status.SUCCESS, started=begun, ended=begun - timedelta(days=2)
    )
    assert test.test_end_ts == test.test_start_ts == begun
