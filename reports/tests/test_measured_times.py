"""An op is slower only if its measured time grew by more than its runs differ among themselves."""

from __future__ import annotations

import pytest

from opscope.base.labels import Label
from opscope.reports.tests.test_diff_rows import label_and_note, op

US = 1000.0


@pytest.mark.parametrize(
    ("before", "now", "slower"),
    [
        ((100, 5), (160, 5), True),
        ((100, 5), (124, 1), False),  # less than a quarter: another process, another place in memory
        ((100, 5), (160, 60), False),  # its own runs differ by as much
        ((100, 60), (160, 5), False),
        ((10, 1), (59, 1), False),  # on a busy machine nobody can tell 49 us
        ((10, 1), (61, 1), True),
        ((160, 5), (100, 5), False),
        ((100, None), (900, 5), False),  # run once: nobody knows how its runs differ
        ((None, None), (900, 5), False),
    ],
)
def test_slower_is_what_takes_longer_than_its_spread(
    before: tuple[float | None, float | None], now: tuple[float | None, float | None], slower: bool
) -> None:
    old, new = (
        op("add", ran_on="host", run_ns=time and time * US, run_spread_ns=spread and spread * US)
        for time, spread in (before, now)
    )
    label, note = label_and_note(old, new)
    assert (label == Label.SLOWER) is slower
    if slower:
        assert note == f"runs in {now[0]:.0f} us, {before[0]:.0f} before"


def test_a_host_and_a_device_are_not_compared() -> None:
    old, new = (
        op("add", ran_on=place, run_ns=time, run_spread_ns=1.0)
        for place, time in (("silicon", 50 * US), ("host", 500 * US))
    )
    assert label_and_note(old, new) == (Label.SAME, "")
