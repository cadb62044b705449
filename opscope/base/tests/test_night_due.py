"""By when a night has to be there."""

from __future__ import annotations

from datetime import UTC, datetime

from opscope.base.night_grid.due import Hour, due, read
from opscope.base.tests.each import each

STARTED = datetime(2026, 11, 26, 1, tzinfo=UTC)  # a Thursday, 02:00 in Berlin
BERLIN = "Europe/Berlin"


@each(
    ("by", "now", "late"),
    [
        ("07:00", datetime(2026, 11, 26, 12, tzinfo=UTC), False),
        ("07:00", datetime(2026, 11, 27, 5, 59, tzinfo=UTC), False),  # 06:59 in Berlin
        ("07:00", datetime(2026, 11, 27, 6, 0, tzinfo=UTC), True),
        ("Mon-Wed 07:00", datetime(2026, 11, 27, 12, tzinfo=UTC), False),
        ("Mon-Fri 07:00", datetime(2026, 11, 27, 12, tzinfo=UTC), True),
        ("Sat-Mon 07:00", datetime(2026, 11, 28, 6, 30, tzinfo=UTC), True),
        (600, datetime(2026, 11, 27, 8, 59, tzinfo=UTC), False),  # YAML's 10:00
        (600, datetime(2026, 11, 27, 9, 1, tzinfo=UTC), True),
        (None, datetime(2026, 11, 27, 12, 59, tzinfo=UTC), False),
        (None, datetime(2026, 11, 27, 13, 1, tzinfo=UTC), True),
    ],
)
def test_a_night_is_late_after_its_hour_in_its_own_zone(by: object, now: datetime, late: bool) -> None:
    asked = due(STARTED, BERLIN, {} if by is None else {"by": by}, now)
    assert asked.late == late, asked
    assert BERLIN in asked.text
    assert "the newest night began 2026-11-26 02:00" in asked.text


def test_the_hour_is_that_of_summer_in_summer() -> None:
    started = datetime(2026, 7, 1, 0, tzinfo=UTC)
    asked = due(started, BERLIN, {"by": "07:00"}, datetime(2026, 7, 2, 5, 30, tzinfo=UTC))
    assert (asked.late, asked.text.partition(":")[0]) == (True, "no night by 2026-07-02 07")


@each("text", ["", "7", "25:00", "07:60", "Fri", "Friday 07:00", "07:00 UTC", -5, None])
def test_a_wrong_hour_is_refused(text: object) -> None:
    assert Hour.read(text) is None


def test_without_nights_nothing_is_late() -> None:
    assert read(lambda *_: [], STARTED) is None


def test_a_row_of_sqlite_and_one_of_postgresql_are_the_same() -> None:
    text = read(lambda *_: [("2026-11-26 01:00:00.000000", "UTC", '{"by": "07:00"}')], STARTED)
    assert text == read(lambda *_: [(STARTED, "UTC", {"by": "07:00"})], STARTED)
