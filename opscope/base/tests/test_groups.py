"""Failures grouped by cause: the heaviest first, none lost, cut without losing a cause's numbers."""

from __future__ import annotations

import pytest

from opscope.base.document.groups import by_cause, parts_within

FAILURES = [("a", 1), ("b", 5), ("a", 2), ("c", 4), ("a", 4)]


def test_each_cause_is_there_once_with_all_its_failures() -> None:
    causes = by_cause(FAILURES, lambda failure: failure[0], lambda failure: failure[1])
    assert [(cause.first[0], cause.ops, cause.uses) for cause in causes] == [("a", 3, 7), ("b", 1, 5), ("c", 1, 4)]
    assert [failure for cause in causes for failure in cause.failures] == [
        ("a", 1),
        ("a", 2),
        ("a", 4),
        ("b", 5),
        ("c", 4),
    ]
    assert [cause.with_counts("why") for cause in causes] == ["3 ops, 7 uses: why", "why", "why"]


@pytest.mark.parametrize(("most", "sizes"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (9, [3, 1, 1])])
def test_a_page_with_less_room_keeps_the_numbers(most: int, sizes: list[int]) -> None:
    causes = parts_within(by_cause(FAILURES, lambda failure: failure[0], lambda failure: failure[1]), most)
    assert [len(cause.failures) for cause in causes] == sizes
    assert [cause.ops for cause in causes] == [3, 1, 1][: len(sizes)]
