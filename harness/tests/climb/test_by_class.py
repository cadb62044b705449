"""The record of an op from those on each class of its inputs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opscope.base.tests.each import each
from opscope.harness.climb.by_class import of_classes
from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import ClassInputs, OpRow, OpTest, Source, StageTime
from opscope.harness.record.stages import Stage, Status

START = datetime(2026, 1, 1, tzinfo=UTC)
ROW = OpRow(
    op_id="0" * 16,
    op_name="stablehlo.sort",
    module="ops/a.mlirbc",
    input_class="hard",
    sources=(Source(kind="random", law="zeros"),),
    other_classes=(
        ClassInputs(input_class="odd", sources=(Source(kind="random", law="ones"),)),
        ClassInputs(input_class="plain", sources=(Source(kind="random", law="normal:1"),)),
    ),
)


def joined(*ends: tuple[Status, float | None]) -> tuple[OpTest, list[str]]:
    """The record of classes that end like this, and the laws of the rows that ran."""
    left, laws = list(ends), []

    def test_of(row: OpRow) -> OpTest:
        assert not row.other_classes
        laws.append(str(row.sources[0].law))
        status, z = left.pop(0)
        error = None if status is Status.SUCCESS else f"error {z}"
        started = START + timedelta(seconds=len(laws))
        return build_test(
            row,
            RunContext("run", "."),
            status=status,
            started=started,
            ended=started + timedelta(seconds=1),
            error=error,
            z_max=z,
            stages=(StageTime(stage=Stage.RUN, seconds=2),),
            domain_share=len(laws) / 10,
        )

    return of_classes(ROW, test_of), laws


def test_the_last_class_that_failed_is_shown_and_all_are_named() -> None:
    wrong, right = Status.WRONG_RESULT, Status.SUCCESS
    test, laws = joined((wrong, 9.0), (wrong, 7.0), (right, 0.5))
    assert laws == ["zeros", "ones", "normal:1"]
    assert (test.status, test.input_class, test.z_max) == (wrong, "odd", 7.0)
    assert test.error_message == "error 7.0; with inputs: odd, hard"
    assert [(each.input_class, each.status) for each in test.input_classes] == [
        ("plain", right),
        ("odd", wrong),
        ("hard", wrong),
    ]
    assert test.stages == (StageTime(stage=Stage.RUN, seconds=6),)
    assert test.test_end_ts - test.test_start_ts == timedelta(seconds=3)
    assert test.domain_share == pytest.approx(0.3)


def test_of_one_that_is_right_everywhere_the_largest_error_is_shown() -> None:
    right = Status.SUCCESS
    test, _ = joined((right, 0.1), (right, 0.9), (right, 0.5))
    assert (test.status, test.input_class, test.z_max, test.error_message) == (right, "odd", 0.9, None)


@each("without", [Status.NOT_RUN, Status.NO_GOLDEN])
def test_a_failure_counts_more_than_a_class_that_has_no_verdict(without: Status) -> None:
    test, _ = joined((Status.WRONG_RESULT, 7.0), (without, None), (Status.SUCCESS, 0.1))
    assert test.status is Status.WRONG_RESULT
    test, _ = joined((Status.SUCCESS, 7.0), (without, None), (Status.SUCCESS, 0.1))
    assert test.status is without


def test_what_does_not_compile_is_asked_once() -> None:
    test, laws = joined((Status.COMPILE_FAILED, None))
    assert (test.status, laws, test.input_classes) == (Status.COMPILE_FAILED, ["zeros"], ())


def test_a_class_without_a_kept_verdict_leaves_the_op_without_one() -> None:
    assert of_classes(ROW, lambda row: None) is None


def test_an_op_of_one_class_names_it_and_one_without_classes_is_as_it_was() -> None:
    only = ROW.model_copy(update={"other_classes": ()})
    plain = only.model_copy(update={"input_class": ""})

    def wrong(row: OpRow) -> OpTest:
        return build_test(row, RunContext("run", "."), status=Status.WRONG_RESULT, started=START, error="far off")

    assert of_classes(only, wrong).error_message == "far off; with inputs: hard"
    assert (of_classes(plain, wrong).error_message, of_classes(plain, wrong).input_classes) == ("far off", ())
