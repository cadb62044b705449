"""Night by cause, against cells, dates and commits worked out by hand; no database is needed for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from opscope.base.night_grid.grid import (
    EMPTY,
    FAILING,
    NEW,
    NO_NIGHT,
    RIGHT,
    UNKNOWN,
    Count,
    Detail,
    Grid,
    Known,
    Night,
    Since,
    age,
    build,
    cut,
    dates_until,
    short_names,
    told_apart,
)
from opscope.base.tests.each import each

FIRST = date(2026, 11, 1)


def night(day: int, series: str = "reference n150", status: str = "complete", hour: int = 2) -> Night:
    """A night of the series on a day of November, of a commit that says which."""
    backend, arch = series.split(" ")[:2]
    day_of = FIRST + timedelta(days=day - 1)
    started = datetime(day_of.year, day_of.month, day_of.day, hour, tzinfo=UTC)
    return Night(
        f"{day}.{hour}", series, backend, arch, day_of.isoformat(), started, status == "complete", f"{day:02}" * 6
    )


def grid(
    nights: list[Night],
    failing: dict[str, dict[tuple[int, str], Count]],
    today: int,
    details: dict[tuple[str, str], Detail] | None = None,
    owner: str = "",
    older: Iterable[int] = (),
) -> Grid:
    """The grid of nights in which causes fail, given by cause, day and series; `older`: days on which one also did."""
    counts = {}
    for cluster, places in failing.items():
        for (day, series), count in places.items():
            own = [each for each in nights if each.series == series and each.date.endswith(f"-{day:02}")][-1]
            counts[own.night_id, series, cluster] = count
    ordered = sorted(nights, key=lambda each: each.started)
    dates = dates_until((FIRST + timedelta(days=today - 1)).isoformat(), ordered[-1].date)
    occurs = [(f"{day}.2", N150, cluster) for day in older for cluster in failing]
    return build(ordered, counts, Known(details or {}, occurs), dates, owner)


N150, P150 = "reference n150", "reference p150"


def test_a_cell_of_every_kind() -> None:
    """n150 began on the 16th, has a partial night with and one without the cause, and p150 stopped on the 20th."""
    partial = {18, 19}
    nights = [night(day, N150, "partial" if day in partial else "complete") for day in range(16, 26)]
    nights += [night(day, P150) for day in range(1, 21)]
    failing = {(day, N150): Count(3) for day in (18, 21, 22, 23, 24, 25)} | {(20, N150): Count(3, new_ops=2)}
    one = grid(nights, {"c" * 12: failing | {(20, P150): Count(1200)}}, today=26)
    (cause,) = one.causes
    stripes = {stripe.name: stripe.cells for stripe in cause.stripes}
    assert (one.dates[0], one.dates[-1], len(one.dates)) == ("2026-11-13", "2026-11-26", 14)
    assert [cell.state for cell in stripes["n150"]] == (
        [EMPTY] * 3 + [RIGHT] * 2 + [FAILING, UNKNOWN, NEW] + [FAILING] * 5 + [NO_NIGHT]
    )
    assert [cell.state for cell in stripes["p150"]] == [RIGHT] * 7 + [FAILING] + [NO_NIGHT] * 6
    assert [day for day, cell in zip(one.dates, stripes["n150"], strict=True) if cell.partial] == [
        "2026-11-18",
        "2026-11-19",
    ]
    assert [cell.text for cell in stripes["n150"][2:9]] == ["", "✓", "✓", "3", "?", "3", "3"]
    assert stripes["p150"][7].text == "1k"
    assert [cell.label for cell in (*stripes["n150"][2:8], stripes["n150"][13])] == [
        "n150, 2026-11-15: the series had not begun",
        "n150, 2026-11-16: right",
        "n150, 2026-11-17: right",
        "n150, 2026-11-18: 3 ops fail in a partial night",
        "n150, 2026-11-19: not seen in a partial night",
        "n150, 2026-11-20: 3 ops fail, 2 anew",
        "n150, 2026-11-26: no night",
    ]
    # No complete night of n150 was without it since the 17th, and p150 does not speak for a night that it did not have.
    assert [(since.series, since.text, since.last) for since in cause.since] == [
        ("n150", "11-18, 17171717..18181818", ""),
        ("p150", "11-20, 19191919..20202020", "2026-11-20"),
    ]


@pytest.mark.parametrize(
    ("failing_days", "older", "expected"),
    [
        pytest.param([25], [], "11-25, 24242424..25252525", id="anew"),
        pytest.param([23, 25], [], "11-25, 24242424..25252525", id="it was right in between"),
        pytest.param(range(12, 26), range(1, 12), "before 2026-11-01", id="in every night since the first"),
        pytest.param(range(12, 26), [3, 10, 11], "11-10, 09090909..10101010", id="since before the dates shown"),
        pytest.param(range(12, 26), [], "11-12, 11111111..12121212", id="since the first date shown"),
    ],
)
def test_since_is_the_start_of_the_unbroken_failure(failing_days: list[int], older: list[int], expected: str) -> None:
    nights = [night(day) for day in range(1, 26)]
    one = grid(nights, {"cause": {(day, N150): Count(1) for day in failing_days}}, 25, older=older)
    (since,) = one.causes[0].since
    assert (since.series, since.text) == ("", expected)


def test_a_night_that_says_no_other_commit_is_named_by_its_date() -> None:
    nights = [replace(night(day), revision="") for day in (24, 25)]
    one = grid(nights, {"cause": {(25, N150): Count(1)}}, 25)
    title = "n150: right on 2026-11-24, failing since 2026-11-25"
    assert one.causes[0].since == (Since("", "2026-11-25", title),)


def test_series_that_say_the_same_say_it_once() -> None:
    series = [f"reference {board}" for board in ("a", "b", "c")]
    nights = [night(day, name) for name in series for day in (23, 24, 25)]
    failing = {(day, name): Count(1) for name in series for day in (24, 25)} | {(23, series[2]): Count(1)}
    (cause,) = grid(nights, {"cause": failing}, 25).causes
    assert [(since.series, since.text) for since in cause.since] == [
        ("a, b", "11-24, 23232323..24242424"),
        ("c", "before 2026-11-23"),
    ]
    assert cause.since[0].title == "; ".join(f"{name}: right on 2026-11-23, failing since 2026-11-24" for name in "ab")


def test_what_is_fixed_stays_below_until_its_last_failure_leaves_the_dates() -> None:
    nights = [night(day) for day in range(1, 26)]
    places = {
        "fixed": {(14, N150): Count(2)},
        "forgotten": {(11, N150): Count(2)},
        "failing": {(25, N150): Count(1)},
    }
    one = grid(nights, places, 25)
    assert [(cause.cluster, cause.fixed) for cause in one.causes] == [("failing", ""), ("fixed", "2026-11-15")]


def test_a_partial_night_fixes_nothing() -> None:
    nights = [night(day, status="partial" if day == 25 else "complete") for day in range(20, 26)]
    (cause,) = grid(nights, {"cause": {(24, N150): Count(1)}}, 25).causes
    assert cause.fixed == ""


def test_the_last_night_of_a_date_counts() -> None:
    nights = [night(24), night(25, status="partial"), night(25, hour=9)]
    (cause,) = grid(nights, {"cause": {(24, N150): Count(1)}}, 25).causes
    assert (cause.fixed, cause.stripes[0].cells[-1].state) == ("2026-11-25", RIGHT)


def test_a_cause_that_comes_and_is_fixed_on_one_date_stays_below() -> None:
    nights = [night(24), night(25), night(25, hour=9)]
    counts = {("25.2", N150, "cause"): Count(1)}
    (cause,) = build(nights, counts, Known({}), dates_until("2026-11-25", "2026-11-25")).causes
    assert (cause.fixed, cause.stripes[0].cells[-1].state) == ("2026-11-25", RIGHT)


def test_what_to_do_first() -> None:
    """Expected failures are last of those that fail, a series that stopped before them; what is new is first."""
    nights = [night(day) for day in range(20, 26)] + [night(day, P150) for day in range(20, 24)]
    tonight = (25, N150)
    places = {
        "expected": {tonight: Count(9)},
        "stopped": {(23, P150): Count(9)},
        "many models": {(24, N150): Count(1), tonight: Count(1)},
        "whole": {(24, N150): Count(1), tonight: Count(1)},
        "anew": {tonight: Count(1, new_ops=1)},
    }
    details = {
        (N150, "expected"): Detail(expected=True, models=("a", "b", "c")),
        (P150, "stopped"): Detail(models=("a", "b", "c")),
        (N150, "many models"): Detail(models=("a", "b", "c")),
        (N150, "whole"): Detail(models=("a",), alone=("a",), owner="kernels"),
        (N150, "anew"): Detail(),
    }
    one = grid(nights, places, 25, details)
    assert [cause.cluster for cause in one.causes] == ["anew", "whole", "many models", "stopped", "expected"]
    assert [cause.cluster for cause in grid(nights, places, 25, details, owner="kernels").causes] == ["whole"]


def test_a_row_has_the_series_in_which_its_cause_fails_and_names_the_others() -> None:
    series = [f"reference {arch}" for arch in ("a", "b", "c")]
    nights = [night(day, name) for name in series for day in (24, 25)]
    alone = {(series[0], "cause"): Detail(models=("m",), alone=("m",)), (series[2], "cause"): Detail(models=("m",))}
    places = {(25, series[0]): Count(7), (25, series[2]): Count(1)}
    one = grid(nights, {"cause": places}, 25, alone)
    (cause,) = one.causes
    assert ([stripe.name for stripe in cause.stripes], cause.without, cause.alone_on) == (["a", "c"], ("b",), ("a",))
    assert not one.merged


def test_of_more_than_four_series_that_fail_the_worst_and_in_how_many() -> None:
    series = [f"reference {arch}" for arch in ("a", "b", "c", "d", "e", "f")]
    nights = [night(day, name) for name in series for day in (23, 24, 25) if (name, day) != (series[4], 25)]
    places = {(25, series[0]): Count(7), (25, series[2]): Count(2, new_ops=1), (24, series[1]): Count(4)}
    places |= {(23, series[3]): Count(1), (23, series[4]): Count(1)}
    one = grid(nights, {"cause": places}, 25)
    (cause,) = one.causes
    assert (cause.without, one.merged) == (("f",), True)
    (stripe,) = cause.stripes
    assert stripe.name == "5 series"
    assert [(cell.state, cell.text, cell.times) for cell in stripe.cells[-2:]] == [(FAILING, "4", ""), (NEW, "2", "×2")]
    assert stripe.cells[-1].label == "c, 2026-11-25: 2 ops fail, 1 anew; it fails in 2 of 5 series"


def test_twenty_rows_and_how_many_more() -> None:
    nights = [night(day) for day in (23, 24, 25)]
    places = {f"failing {n:02}": {(25, N150): Count(1)} for n in range(18)}
    places |= {f"fixed {n}": {(23, N150): Count(1)} for n in range(5)}
    one = grid(nights, places, 25)
    assert (len(one.causes), one.more_failing, one.more_fixed) == (20, 0, 3)
    one = grid(nights, places | {f"more {n}": {(25, N150): Count(1)} for n in range(7)}, 25)
    assert (len(one.causes), one.more_failing, one.more_fixed) == (20, 5, 5)


@pytest.mark.parametrize(
    ("today", "newest", "last"),
    [
        pytest.param("2026-11-20", "2026-11-20", "2026-11-20", id="tonight"),
        pytest.param("2026-11-23", "2026-11-20", "2026-11-23", id="nothing for three days"),
        pytest.param("2027-03-01", "2026-11-20", "2026-11-20", id="nothing for months"),
        pytest.param("2026-11-19", "2026-11-20", "2026-11-20", id="a night of tomorrow, by its own zone"),
    ],
)
def test_the_last_date(today: str, newest: str, last: str) -> None:
    assert dates_until(today, newest)[-1] == last


@pytest.mark.parametrize(
    ("series", "names"),
    [
        pytest.param(["reference n150"], ["n150"], id="one"),
        pytest.param([N150, P150, "tt n150", "xla n150"], ["n150", "p150", "tt", "xla"], id="boards and compilers"),
        pytest.param([N150, P150, "tt n150", "tt p150"], [N150, P150, "tt n150", "tt p150"], id="both on both"),
        pytest.param(["x n150 f32", "x n150 bf16"], ["x n150 f32", "x n150 bf16"], id="types"),
        pytest.param(
            [f"reference {board} float32 {held}captured 0" for board in ("n150", "p150") for held in ("Bfp8_b ", "")],
            ["reference n150 Bfp8_b", "reference n150", "reference p150 Bfp8_b", "reference p150"],
            id="formats",
        ),
        pytest.param(
            ["x n150 float32 captured 0", "x n150 float32 captured 7"], ["x n150 seed=0", "x n150 seed=7"], id="seeds"
        ),
    ],
)
def test_a_series_is_called_by_what_sets_it_apart(series: list[str], names: list[str]) -> None:
    assert list(short_names([night(1, each) for each in series]).values()) == names


def test_boards_and_formats_of_a_compiler_without_board() -> None:
    """Its series differ in the boards that were asked for, which its name does not have."""
    keys = [f"mycc {board} float32 {held} captured 0" for board in ("n150", "p150") for held in ("Bfp8_b", "Float16_b")]
    expected = ["mycc n150 Bfp8_b", "mycc n150 Float16_b", "mycc p150 Bfp8_b", "mycc p150 Float16_b"]
    assert list(short_names([replace(night(1, key), board="") for key in keys]).values()) == expected
    places = {key: f"mycc {key.split()[3]}" for key in keys}
    assert list(told_apart(places).values()) == expected, "as the first sentence names them"
    assert told_apart({"tt@* n150 a": "tt@1 n150", "tt@* n150 b": "tt@1 n150"})["tt@* n150 a"] == "tt@1 n150 a"


@each(
    ("text", "expected"),
    [
        ("it broke", "it broke"),
        ("one two three four", "one two…"),
        ("one\n two", "one two"),
        ("onetwothreefour", "onetwothr…"),
    ],
)
def test_a_long_text_ends_at_a_word(text: str, expected: str) -> None:
    assert cut(text, 10) == expected


@each(
    ("hours", "expected"),
    [
        (0.5, "less than an hour ago"),
        (1, "1 hour ago"),
        (47.5, "47 hours ago"),
        (60, "2 days ago"),
    ],
)
def test_the_age_of_a_night(hours: float, expected: str) -> None:
    then = datetime(2026, 11, 1, tzinfo=UTC)
    assert age(then, then + timedelta(hours=hours)) == expected
