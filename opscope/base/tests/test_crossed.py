"""Which cases of crossed parameters are quick."""

from __future__ import annotations

from itertools import product

import pytest

from opscope.base.tests.crossed import each_value_once


def test_each_value_is_in_a_quick_case_and_evenly_often() -> None:
    cases = [{"name": name, "kind": kind} for name, kind in product(range(50), range(7))]
    quick = [cases[number] for number in each_value_once(cases)]
    assert sorted(case["name"] for case in quick) == list(range(50))
    assert {sum(case["kind"] == kind for case in quick) for kind in range(7)} == {7, 8}
    assert each_value_once([]) == []
    assert each_value_once([{"a": 1}, {"a": 2}]) == [0, 1]


@pytest.mark.crossed
@pytest.mark.parametrize("b", "xyz")
@pytest.mark.parametrize(("a", "twice"), [(1, 2), (2, 4), pytest.param(3, 6, marks=pytest.mark.slow)])
def test_of_pairs_the_quick_ones_have_each_value(request: pytest.FixtureRequest, a: int, twice: int, b: str) -> None:
    """Six pairs are not slow by themselves; three of them have both numbers and all letters."""
    assert twice == 2 * a
    same = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    quick = [item.callspec.params for item in same if item.get_closest_marker("slow") is None]  # type: ignore[attr-defined]
    if len(same) == 9 or request.config.option.markexpr == "not slow":
        assert len(quick) == 3
        assert {values["b"] for values in quick} == set("xyz")
        assert {values["a"] for values in quick} == {1, 2}
