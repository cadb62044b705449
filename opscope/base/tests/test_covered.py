"""Slow cases name a quick one."""

from __future__ import annotations

import pytest

from opscope.base.tests.covered import covered


def test_a_case_that_another_holds_is_slow() -> None:
    first, second = covered(["rows", "columns"], {"columns": "rows"})
    assert first == "rows"
    assert (second.values, [mark.name for mark in second.marks]) == (("columns",), ["slow"])


@pytest.mark.parametrize("by", [{"columns": "pages"}, {"pages": "rows"}, {"columns": "rows", "rows": "columns"}])
def test_what_holds_a_case_is_a_quick_one(by: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="covered: expected a case and a quick one that covers it, got"):
        covered(["rows", "columns"], by)
