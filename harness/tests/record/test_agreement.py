"""Where backends disagree: only those vote that judged the op, and one that stands alone is named."""

from __future__ import annotations

import pytest

from opscope.harness.record.agreement import disagreements
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.run_folder import NAMES, record_of

GOOD, BAD, OTHER = Status.SUCCESS, Status.WRONG_RESULT, Status.CRASHED


def test_a_backend_that_cannot_be_loaded_says_nothing_of_ops(tmp_path):
    def tests(error: str) -> list[OpTest]:
        fails = {"status": Status.COMPILE_FAILED, "failed_stage": Stage.COMPILE, "error": error, "backend": "b"}
        of_op = ([record_of(tmp_path, op, GOOD, backend="a"), record_of(tmp_path, op, **fails)] for op in NAMES)
        return [test for both in of_op for test in both]

    assert len(disagreements(tests("no such op"))) == len(NAMES)
    assert disagreements(tests("b cannot be loaded: no symbol")) == []


@pytest.mark.parametrize(
    ("statuses", "alone", "first"),
    [
        ({"a": GOOD, "b": GOOD}, None, None),
        ({"a": BAD, "b": OTHER}, None, None),
        ({"a": GOOD, "b": BAD}, "b", "b"),
        ({"a": BAD, "b": GOOD, "c": GOOD}, "a", "a"),
        ({"a": GOOD, "b": BAD, "c": OTHER}, "a", "a"),
        ({"a": GOOD, "b": BAD, "c": GOOD, "d": BAD}, "", "b"),
        ({"a": GOOD, "b": Status.SKIPPED}, None, None),
        ({"a": BAD, "b": Status.NOT_RUN, "c": Status.SKIPPED}, None, None),
        ({"a": GOOD, "b": BAD, "c": Status.SKIPPED}, "b", "b"),
    ],
)
def test_the_one_that_differs_is_named_and_speaks_for_the_op_or_the_first_that_fails(tmp_path, statuses, alone, first):
    op_id = next(iter(NAMES))
    tests = [record_of(tmp_path, op_id, status, backend=name) for name, status in statuses.items()]
    splits = [(split.alone, split.first.backend) for split in disagreements(tests)]
    assert splits == ([] if alone is None else [(alone, first)])


@pytest.mark.parametrize(
    ("failed", "stage", "backends"),
    [
        (Status.COMPILE_FAILED, "lower", {"a", "b", "c"}),
        (OTHER, "link", {"a", "b", "c"}),
        (OTHER, "run", {"a", "c"}),
        (BAD, "compare", {"a", "c"}),
    ],
)
def test_what_only_compiled_contradicts_compilers_alone(tmp_path, failed, stage, backends):
    op_id = next(iter(NAMES))
    test = record_of(tmp_path, op_id, failed, backend="a", failed_stage=stage)
    passed = record_of(tmp_path, op_id, Status.STOPPED, backend="b")
    right = record_of(tmp_path, op_id, GOOD, backend="c")
    assert len(disagreements([test, passed])) == ("b" in backends)
    assert [set(split.tests) for split in disagreements([test, passed, right])] == [backends]


def test_the_most_used_op_comes_first(tmp_path):
    first, second, _ = NAMES
    tests = [
        record_of(tmp_path, op_id, status, uses, backend=name)
        for op_id, uses in ((first, 1), (second, 7))
        for name, status in (("a", GOOD), ("b", BAD))
    ]
    assert [split.first.op_id for split in disagreements(tests)] == [second, first]
    assert disagreements(tests)[0].first.backend == "b"
