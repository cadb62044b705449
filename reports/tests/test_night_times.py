"""Times of nights have their zone, releases have none."""

from __future__ import annotations

import pytest

from opscope.base.visible_text import counted
from opscope.reports.compare.night_times import night_column, timed

UTC_NIGHT, BERLIN_NIGHT, RELEASE = (
    ("2026-11-20 02:00", "UTC"),
    ("2026-11-20 03:00", "Europe/Berlin"),
    ("1.2.3", "UTC"),
)


@pytest.mark.parametrize(
    ("nights", "head", "cells"),
    [
        ([UTC_NIGHT], "night (UTC)", ["2026-11-20 02:00"]),
        ([UTC_NIGHT, BERLIN_NIGHT], "night", ["2026-11-20 02:00 UTC", "2026-11-20 03:00 Europe/Berlin"]),
        ([RELEASE], "night", ["1.2.3"]),
        ([], "night", []),
    ],
)
def test_a_zone_that_all_have_stands_in_the_head(nights: list[tuple[str, str]], head: str, cells: list[str]) -> None:
    assert night_column(nights) == (head, cells)


def test_one_is_one() -> None:
    assert timed(*UTC_NIGHT) == "2026-11-20 02:00 UTC"
    assert [counted(number, "op") for number in (0, 1, 2)] == ["0 ops", "1 op", "2 ops"]
