"""Where backends disagree: only those vote that judged the op, and one that stands alone is named."""

from __future__ import annotations

import pytest

from opscope.harness.record.agreement import disagreements
from opscope.harness.record.stages import Status
from opscope.harness.tests.run_folder import NAMES, record_of

GOOD, BAD, OTHER = Status.SUCCESS, Status.GOLDEN_FAILED, Status.CRASHED


@pytest.mark.parametrize(
    ("statuses", "alone"),
    [
        ({"a": GOOD, "b": GOOD}, None),
        ({"a": BAD, "b": OTHER}, None),
        ({"a": GOOD, "b": BAD}, "b"),
        ({"a": BAD, "b": GOOD, "c": GOOD}, "a"),
        ({"a": GOOD, "b": BAD, "c": OTHER}, "a"),
        ({"a": GOOD, "b": BAD, "c": GOOD, "d": BAD}, ""),
        ({"a": GOOD, "b": Status.SKIPPED}, None),
        ({"a": BAD, "b": Status.NOT_RUN, "c": Status.STOPPED}, None),
        ({"a": GOOD, "b": BAD, "c": Status.SKIPPED}, "b"),
    ],
)
def test_the_one_that_differs_is_named(tmp_path, statuses, alone):
    op_id = next(iter(NAMES))
    tests = [record_of(tmp_path, op_id, status, backend=name) for name, status in statuses.items()]
    found = [split.alone for split in disagreements(tests)]
    assert found == ([] if alone is None else [alone])


def test_the_most_used_op_comes_first(tmp_path):
    first, second, _ = NAMES
    tests = [
        record_of(tmp_path, op_id, status, uses, backend=name)
        for op_id, uses in ((first, 1), (second, 7))
        for name, status in (("a", GOOD), ("b", BAD))
    ]
    assert [split.first.op_id for split in disagreements(tests)] == [second, first]
    assert disagreements(tests)[0].first.backend == "b"
